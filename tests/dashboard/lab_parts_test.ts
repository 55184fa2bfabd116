import { pointsOf } from '../../server/dashboard/src/views/run_ends';
import { shareLink } from '../../server/dashboard/src/views/run_share';
import {
  cellText,
  cellValue,
  type CounterId,
  heatOf,
  layersOf,
  peakBytes,
  phasesOf,
  readMemoryCurve,
  readTraceContent,
  readWindow,
  shareOf,
  stackOf,
} from '../../server/dashboard/src/data/lab';
import {
  compareProbes,
  distanceOf,
  parseProbe,
  type Probe,
  type ProbeRecord,
  sampledPlace,
} from '../../server/dashboard/src/data/probe_compare';
import { oneAtATime } from '../../server/dashboard/src/lib/work';
import { parseSettings, settingsText, SLIDERS, stopsOf } from '../../server/dashboard/src/views/run_what_if';

describe('The content of a trace', () => {
  const rank = {
    rank: 1,
    host: 'birch',
    total_ms: 200,
    compute_ms: 150,
    exposed_ms: 30,
    hidden_ms: 50,
    data_ms: 15,
    other_ms: 5,
  };
  const content = { first_update: 20, updates: 2, ops: false, request: 3, ranks: [rank] };
  it('is read as it was written', () => {
    expect(readTraceContent(content)).toEqual(content);
    expect(shareOf(rank, rank.exposed_ms)).toBe(0.15);
  });
  it('may be anything that a worker sent', () => {
    for (const other of [null, 7, 'x', [], {}, { ...content, ranks: 'none' }, { ...content, updates: null }])
      expect(readTraceContent(other)).toBeNull();
    expect(readTraceContent({ ...content, ranks: [null, 5, { rank: 0 }, rank] })?.ranks).toEqual([rank]);
    expect(readTraceContent({ ...content, ops: undefined, request: 'x' })).toMatchObject({ ops: false, request: 0 });
    expect(shareOf({ ...rank, total_ms: 0 }, 5)).toBe(0);
    expect(shareOf(rank, 900)).toBe(1);
  });
});

describe('A window of the parameters', () => {
  const spread = (mean: number, max = mean) => ({ min: 0, mean, max });
  const parameter = {
    name: 'encoder.embedding',
    rows: 120,
    width: 64,
    rows_are: 'subwords',
    changed: spread(50),
    visible: spread(25),
    untouched: spread(10),
    changed_elements: spread(1600),
    ratio: spread(0.001),
    max_ratio: spread(0.002, 0.1),
    hottest: [{ row: 3, changed: 99, ratio: 0.5, label: '▁the' }],
    coldest: [{ row: 7, changed: 0, ratio: 0 }],
  };
  const content = { first_update: 1, last_update: 100, updates: 100, cold: 0.25, parameters: [parameter] };
  const window = readWindow(content)!;
  it('is read as it was written', () => {
    expect(window).toMatchObject({ last_update: 100, cold: 0.25, lost_in_rounding: 0 });
    expect(window.parameters[0]!.hottest).toEqual(parameter.hottest);
    expect(window.parameters[0]!.coldest).toEqual([{ row: 7, changed: 0, ratio: 0, label: '' }]);
  });
  it('may be anything that a worker sent', () => {
    for (const other of [null, 'x', [], {}, { ...content, updates: 0 }, { ...content, parameters: {} }])
      expect(readWindow(other)).toBeNull();
    const odd = [null, 5, { ...parameter, ratio: 7 }, { ...parameter, name: 1 }, { ...parameter, hottest: [null, {}] }];
    expect(readWindow({ ...content, parameters: odd })?.parameters.map(({ hottest }) => hottest)).toEqual([[]]);
  });
  it('shows counters as shares of the updates, and of the elements', () => {
    const value = (id: CounterId): number => cellValue(id, window, window.parameters[0]!);
    expect(value('changed')).toBe(0.5);
    expect(value('untouched')).toBe(0.1);
    expect(value('changed_elements')).toBe(0.25);
    expect(value('ratio')).toBe(0.001);
    expect(value('max_ratio')).toBe(0.1);
    expect(cellText('changed', 0.5)).toBe('50.0 %');
  });
  it('colours ratios by their logarithm', () => {
    expect(heatOf('changed', 0.3, [])).toBe(0.3);
    expect(heatOf('ratio', 0, [0, 1e-4])).toBe(0);
    expect(heatOf('ratio', 1e-4, [1e-4, 1e-2])).toBeCloseTo(0.1);
    expect(heatOf('ratio', 1e-3, [1e-4, 1e-2])).toBeCloseTo(0.55);
    expect(heatOf('ratio', 1e-2, [1e-4, 1e-2])).toBeCloseTo(1);
  });
});

describe('The memory inside an update', () => {
  const content = {
    format: 1,
    update: 100,
    rank: 1,
    device: 'cpu',
    precision: 'bf16',
    beside_arenas: { weights: 300, gradients: 0, moments: 600 },
    peak: 1,
    owners: [['encoder.0', 'linear_forward', 'y', 70]],
    other: 30,
    moments: [
      ['forward', 'encoder.0', 'linear_forward', 50, 0],
      ['forward', 'encoder.1', 'linear_forward', 80, 20],
      ['backward', 'encoder.1', 'linear_backward_data', 40, 10],
    ],
  };
  const curve = readMemoryCurve(content)!;
  it('is a stack of the purposes with the arenas on top', () => {
    expect(layersOf(curve)).toEqual([
      { name: 'weights', bytes: [300, 300, 300] },
      { name: 'moments', bytes: [600, 600, 600] },
      { name: 'activations', bytes: [50, 80, 40] },
      { name: 'scratch', bytes: [0, 20, 10] },
    ]);
    expect(peakBytes(curve)).toBe(1000);
    expect(phasesOf(curve)).toEqual([
      ['forward', 2],
      ['backward', 1],
    ]);
    expect(curve.owners).toEqual([{ layer: 'encoder.0', op: 'linear_forward', member: 'y', bytes: 70 }]);
  });
  it('is drawn from the bottom to the highest moment', () => {
    const [weights, , , scratch] = stackOf(layersOf(curve), 100, 10);
    expect(weights).toBe('0.0,7.0 50.0,7.0 100.0,7.0 100.0,10.0 50.0,10.0 0.0,10.0');
    expect(scratch).toBe('0.0,0.5 50.0,0.0 100.0,0.5 100.0,0.6 50.0,0.2 0.0,0.5');
    expect(stackOf([{ name: 'x', bytes: [0] }], 100, 10)).toEqual(['0.0,10.0 0.0,10.0']);
  });
  it('may be anything that a worker sent', () => {
    for (const other of [
      null,
      'x',
      [],
      {},
      { ...content, format: 2 },
      { ...content, peak: 3 },
      { ...content, peak: -1 },
    ])
      expect(readMemoryCurve(other)).toBeNull();
    const odd = { ...content, owners: [null, [1, 2, 3, 4]], beside_arenas: { weights: 'x' }, device: 5 };
    expect(readMemoryCurve(odd)).toMatchObject({ owners: [], beside: [], device: '' });
    expect(readMemoryCurve({ ...content, moments: [...content.moments, ['x', 1]] })?.moments.length).toBe(3);
  });
});

describe('Two probes', () => {
  const record = (number: number, more: Partial<ProbeRecord> = {}): ProbeRecord => ({
    record: number,
    update: 3,
    micro_batch: 0,
    phase: 'forward',
    layer: `encoder.${number}`,
    op: 'linear_forward',
    member: 'y',
    occurrence: 0,
    role: 'output',
    shape: [2],
    dtype: 'f32',
    sha256: 'a',
    elements: '3f80000040000000',
    inputs: number > 0 ? [number - 1] : [],
    ...more,
  });
  const probe = (records: ProbeRecord[], header: Record<string, unknown> = {}, batch = 'b'): Probe => ({
    header: { model: 'm', mode: 'training', first_update: 3, rank: 0, ranks: 2, ...header },
    batch,
    records,
  });
  const a = [record(0), record(1), record(2)];
  it('are the same', () => {
    expect(compareProbes(probe(a), probe(a))).toMatchObject({ tensors: 3, different: 0, missing: 0, first: null });
  });
  it('differ first where an op differs although its inputs are the same', () => {
    const b = [a[0]!, record(1, { sha256: 'b', elements: '3f80000040000003' }), record(2, { sha256: 'c' })];
    const found = compareProbes(probe(a), probe(b, { threads: 2, environment: { MPI: 'Open MPI v4' } }));
    expect(found).toMatchObject({ different: 2, missing: 0, cause: 'op', carriedOnFrom: null });
    expect(found.first?.a).toBe(a[1]);
    expect(found.distance).toMatchObject({ element: 1, a: 2, ulp: 3 });
    expect(found.environment).toEqual(['threads: none and 2', 'MPI: none and Open MPI v4']);
    expect(found.layers).toEqual([
      { layer: 'encoder.0', cells: { output: 'same' } },
      { layer: 'encoder.1', cells: { output: 'differs' } },
      { layer: 'encoder.2', cells: { output: 'differs' } },
    ]);
  });
  it('name libraries of other versions apart from the rest of the environment', () => {
    const with_ = (environment: Record<string, string>): Probe => probe(a, { environment });
    const found = compareProbes(
      with_({ oneDNN: '2.6.3', 'Open MPI': '4.1.4', glibc: '2.36', kernel: 'Linux 6.1' }),
      with_({ oneDNN: '3.7.2', 'Open MPI': '4.1.4', SentencePiece: '0.2.0', glibc: '2.41', kernel: 'Linux 6.12' }),
    );
    expect(found.libraries).toEqual(['oneDNN differs: 2.6.3 / 3.7.2', 'glibc differs: 2.36 / 2.41']);
    expect(found.environment).toEqual(['kernel: Linux 6.1 and Linux 6.12', 'SentencePiece: none and 0.2.0']);
    expect(compareProbes(probe(a), probe(a)).libraries).toEqual([]);
  });
  it('say from which op a difference was carried on, and what one of them lacks', () => {
    const found = compareProbes(probe([a[1]!, record(0, { sha256: 'x', inputs: [1] })]), probe([a[0]!]));
    expect(found).toMatchObject({ tensors: 2, different: 1, missing: 1 });
    expect(found.first?.sameness).toBe('missing');
    const b = compareProbes(
      probe([record(0), record(1, { inputs: [0] })]),
      probe([record(0, { sha256: 'x' }), record(1)]),
    );
    expect(b.first?.a?.record).toBe(0);
    expect(b.carriedOnFrom).toBeNull();
    const late = compareProbes(probe([record(1, { inputs: [0] }), record(0)]), probe([]));
    expect(late.carriedOnFrom?.a?.record).toBe(0);
  });
  it('accuse no op whose inputs were not recorded or not compared', () => {
    const second = (more: Partial<ProbeRecord> = {}) => record(1, { sha256: 'x', ...more });
    const found = (mine: ProbeRecord[], theirs: ProbeRecord[], header = {}) =>
      compareProbes(probe(mine, header), probe(theirs, header)).cause;
    expect(found([a[0]!, a[1]!], [a[0]!, second({ left_out: true })])).toBe('not recorded');
    expect(found([a[0]!, a[1]!], [a[0]!, second()], { layers: 'first10' })).toBe('not recorded');
    const told = { left_out: false };
    expect(found([a[0]!, record(1, told)], [a[0]!, second(told)], { layers: 'first10' })).toBe('op');
    const sum = record(1, { phase: 'gradient_sum', op: 'gradient_sum', role: 'weight_grad' });
    const ranks = compareProbes(probe([a[0]!, sum]), probe([a[0]!, { ...sum, sha256: 'x' }], { rank: 1 }));
    expect(ranks).toMatchObject({ ranksOnly: true, cause: 'not compared', carriedOnFrom: null });
    const lacks = compareProbes(probe([a[0]!, record(1)]), probe([a[0]!]));
    expect(lacks.cause).toBe('missing');
  });
  it('of two ranks are compared in what must be equal on all', () => {
    const summed = record(1, { phase: 'gradient_sum', op: 'gradient_sum', role: 'weight_grad', micro_batch: -1 });
    const found = compareProbes(
      probe([record(0), summed]),
      probe([record(0, { sha256: 'x' }), summed], { rank: 1 }, 'c'),
    );
    expect(found).toMatchObject({ ranksOnly: true, tensors: 1, first: null });
    expect(found.environment).toEqual([]);
  });
  it('of different models, modes, updates or batches are refused', () => {
    for (const [header, word] of [
      [{ model: 'n' }, 'models'],
      [{ mode: 'inference' }, 'modes'],
      [{ first_update: 4 }, 'updates'],
    ] as const)
      expect(() => compareProbes(probe(a), probe(a, header))).toThrow(`of different ${word}`);
    expect(() => compareProbes(probe(a), probe(a, {}, 'c'))).toThrow('of different batches');
    expect(() => compareProbes(probe([]), probe([], { rank: 1 }))).toThrow('no tensors that can be compared');
  });
  it('are read from JSON lines, and refused with file and line', () => {
    const header = '{"format":"babelring-probe","version":2,"model":"m"}';
    const end = '{"end":true,"records":1,"batch":"b"}';
    const line = JSON.stringify(record(0));
    expect(parseProbe(`${header}\n${line}\n${end}\n`, 'p')).toMatchObject({ batch: 'b', records: [record(0)] });
    expect(() => parseProbe('', 'p')).toThrow('p:1: no probe');
    expect(() => parseProbe('{"format":"x"}\n', 'p')).toThrow('p:1: no probe');
    expect(() => parseProbe(`${header.replace('2', '1')}\n`, 'p')).toThrow('p:1: probe format version 1');
    expect(() => parseProbe(`${header}\n${line}\n`, 'p')).toThrow('p: expected an end');
    expect(() => parseProbe(`${header}\n${line}\n{"record"`, 'p')).toThrow('p:3: expected a JSON object');
    const odd = JSON.stringify({ ...record(0), inputs: 'x' });
    expect(() => parseProbe(`${header}\n${odd}\n${end}\n`, 'p')).toThrow("p:2: member 'inputs'");
  });
  it('have distances in the integers of the type, through zero', () => {
    const distance = (dtype: string, first: string, second: string) =>
      distanceOf(record(0, { dtype, elements: first }), record(0, { dtype, elements: second }));
    expect(distance('f32', '0000000000000000', '8000000000000000')).toBeNull();
    expect(distance('f32', '0000000100000000', '8000000100000000')?.ulp).toBe(2);
    expect(distance('bf16', '3f803f80', '3f803f81')).toMatchObject({ element: 1, ulp: 1, absolute: 0.0078125 });
    expect(distance('i32', 'ffffffff', '00000001')).toMatchObject({ a: -1, b: 1, ulp: 2 });
    expect(distance('f32', '7fc0000000000000', '7fc0000100000000')).toBeNull();
    expect(distance('f32', '7fc0000000000000', '3f80000000000000')?.ulp).toBe(Infinity);
  });
  /// The values of sampled_places() in lab/probe/tensor_distance.cc.
  it('sample the places that the worker samples', () => {
    expect(sampledPlace(64, 17)).toBe(17);
    expect(sampledPlace(1000, 0)).toBe(0);
    expect(sampledPlace(1000, 63)).toBe(999);
    expect([1, 2, 31, 62].map((at) => sampledPlace(262_144, at))).toEqual([4428, 8501, 127903, 254855]);
  });
});

describe('Calls one at a time', () => {
  it('joins those that come meanwhile, and goes on after a failure', async () => {
    let calls = 0;
    const failures: unknown[] = [];
    let release = (): void => undefined;
    const call = oneAtATime(
      async () => {
        calls += 1;
        await new Promise<void>((done) => (release = done));
        if (calls === 1) throw new Error('first');
      },
      (error) => failures.push(error),
    );
    call();
    call();
    call();
    expect(calls).toBe(1);
    release();
    await new Promise((done) => setTimeout(done));
    expect(calls).toBe(2);
    expect(failures).toEqual([new Error('first')]);
    release();
    await new Promise((done) => setTimeout(done));
    call();
    expect(calls).toBe(3);
  });
});

describe('The settings of a prediction', () => {
  const own = {
    hosts: 2,
    ranks_per_host: 2,
    link_gbit: 1.8,
    latency_us: 50,
    wire: 'f32',
    bucket_mb: 25,
    accumulate: 1,
    algorithm: 'ring',
    offered: true,
    straggler: 0,
  } as const;
  const slider = (name: string) => SLIDERS.find((each) => each.name === name)!;

  it('stand in the address in a fixed order, without what is unknown', () => {
    const settings = parseSettings('link_gbit:25,colour:red,hosts:4,wire:');
    expect([...settings]).toEqual([
      ['link_gbit', '25'],
      ['hosts', '4'],
    ]);
    expect(settingsText(settings)).toBe('hosts:4,link_gbit:25');
    expect(settingsText(parseSettings(''))).toBe('');
  });

  it('have the run as it is among their values', () => {
    const hosts = stopsOf(slider('hosts'), own);
    expect(hosts.slice(0, 3)).toEqual([
      { value: '1', text: '1' },
      { value: '', text: 'as it is: 2' },
      { value: '3', text: '3' },
    ]);
    const link = stopsOf(slider('link_gbit'), own);
    expect(link.slice(0, 3).map(({ text }) => text)).toEqual(['1 Gbit/s', 'as it is: 1.8 Gbit/s', '2 Gbit/s']);
    const free = stopsOf(slider('link_gbit'), { ...own, link_gbit: null });
    expect(free.at(-1)).toEqual({ value: '', text: 'as it is' });
  });
});

describe('the last minute before an end', () => {
  it('ends at the right, with gaps where a value is missing', () => {
    expect(pointsOf([-60, -30, 0], [0, 8, 16], 16)).toBe('0.0,25.0 80.0,13.0 160.0,1.0');
    expect(pointsOf([-60, -30, 0], [0, null, 32], 16)).toBe('0.0,25.0 160.0,1.0');
    expect(pointsOf([0], [0], 0)).toBe('160.0,25.0');
  });
});

describe('a link to one run', () => {
  it('has its token behind the #, and opens the run', () => {
    const link = shareLink('https://host/babelring/', 'r_1', 'bbr_x');
    expect(link).toBe('https://host/babelring/#/runs/r_1?share=bbr_x');
  });
});
