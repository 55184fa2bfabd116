import { oneAtATime } from '../../server/dashboard/src/lib/one_at_a_time';
import {
  cellText,
  cellValue,
  heatOf,
  readWindow,
  type CounterId,
} from '../../server/dashboard/src/lib/parameter_windows';
import { readTraceContent, shareOf } from '../../server/dashboard/src/lib/trace_shares';

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
