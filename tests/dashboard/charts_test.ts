import { CHARTS, networkData, searchOf } from '../../server/dashboard/src/charts/definitions';
import { evalLines, eventMarks, nonFiniteMarks, stretches } from '../../server/dashboard/src/charts/lines';
import type { RunData } from '../../server/dashboard/src/data/run_data';
import { TokenClock, type XAxis } from '../../server/dashboard/src/lib/axes';
import { formatOf } from '../../server/dashboard/src/lib/format';
import { defaultView } from '../../server/dashboard/src/lib/routes';
import { emptySeries, type Series } from '../../server/dashboard/src/lib/series';

const axis: XAxis = { mode: 'update', startMs: 0, clock: new TokenClock(emptySeries()) };
const VIEW = { ...defaultView(), smoothing: 0 };

/// A run of two hosts whose ranks report `values` by key and rank at two updates.
function runOf(values: Record<string, [number, number]>, evals: unknown[] = []): RunData {
  const get = (key: string, rank?: number): Series => {
    const avg = values[rank === undefined ? key : `${key}@${rank}`];
    return avg ? { ...emptySeries(), step: [1, 2], timeMs: [0, 1], avg, min: avg, max: avg, total: 2 } : emptySeries();
  };
  return {
    axis,
    get,
    evals,
    series: { get },
    hosts: () => [
      { host: 'alder', rank: 0 },
      { host: 'birch', rank: 2 },
    ],
  } as unknown as RunData;
}

const TRAFFIC: Record<string, [number, number]> = {
  'network_rx_bytes_per_second@0': [100e6, 110e6],
  'network_tx_bytes_per_second@0': [90e6, 95e6],
  'network_rx_bytes_per_second@2': [20e6, 20e6],
  'network_tx_bytes_per_second@2': [25e6, 30e6],
};

describe('marks of attempts', () => {
  it('stand at their first update, whatever the clocks say', () => {
    const loss: Series = { ...emptySeries(), step: [40, 41, 42], timeMs: [1000, 2000, 3000], avg: [3, 2, 1], total: 3 };
    const marksOf = (mode: XAxis['mode']) =>
      eventMarks({
        axis: { ...axis, mode },
        get: () => loss,
        alerts: [],
        attempts: [1, 2, 3, 4, 5].map((attempt, at) => ({
          attempt,
          started_at: '2026-11-28T10:00:00.000Z', // an hour after the last record
          first_update: [1, 39, 41, null, 43][at]!,
        })),
      } as unknown as RunData);
    const alerts = (mode: XAxis['mode']) =>
      eventMarks({
        axis: { ...axis, mode },
        get: () => loss,
        attempts: [],
        alerts: [41, 43, null].map((update) => ({
          message: `at ${update}`,
          update,
          raised_at: '2026-11-28T10:00:00.000Z',
        })),
      } as unknown as RunData);
    expect(alerts('update')).toEqual([{ x: 41, kind: 'alert', label: 'at 41' }]);
    expect(alerts('elapsed')).toEqual([{ x: 2, kind: 'alert', label: 'at 41' }]);
    expect(marksOf('update')).toEqual([{ x: 41, kind: 'attempt', label: 'attempt 3' }]);
    expect(marksOf('elapsed')).toEqual([{ x: 2, kind: 'attempt', label: 'attempt 3' }]);
  });
});

describe('the network of hosts', () => {
  it('has a line for what its links carry, as the ranks tell', () => {
    const data = networkData(
      runOf({
        ...TRAFFIC,
        'network_link_bytes_per_second@0': [0, 125e6],
        'network_link_bytes_per_second@2': [125e6, 125e6],
      }),
      VIEW,
    );
    expect(data.lines.map(({ label, kind }) => [label, kind])).toEqual([
      ['alder rx', 'line'],
      ['alder tx', 'line'],
      ['birch rx', 'line'],
      ['birch tx', 'line'],
      ['link capacity', 'limit'],
    ]);
    expect(data.lines.at(-1)).toMatchObject({ x: [1, 2], y: [125e6, 125e6] });
    expect(data.note).toContain("busiest 88 % of its link's 125 MB/s");
  });
  it('tells links of different speed apart, and holds each host against its own', () => {
    const data = networkData(
      runOf({
        ...TRAFFIC,
        'network_link_bytes_per_second@0': [1250e6, 1250e6],
        'network_link_bytes_per_second@2': [125e6, 125e6],
      }),
      VIEW,
    );
    expect(data.lines.slice(4).map(({ label, y }) => [label, y[0]])).toEqual([
      ['link of alder', 1250e6],
      ['link of birch', 125e6],
    ]);
    expect(data.note).toContain('busiest 24 %');
  });
  it('draws no line that would press the curves flat, and none that nobody knows', () => {
    const wide = networkData(runOf({ ...TRAFFIC, 'network_link_bytes_per_second@0': [12.5e9, 12.5e9] }), VIEW);
    expect(wide.lines.length).toBe(4);
    expect(wide.note).toContain("busiest 1 % of its link's 12.5 GB/s");
    expect(networkData(runOf(TRAFFIC), VIEW).note).toBe('all 2 points');
  });
  it("takes the reader's word where no rank knows", () => {
    expect(networkData(runOf(TRAFFIC), { ...VIEW, linkGbit: 1 }).lines.at(-1)).toMatchObject({
      label: 'link capacity',
      y: [125e6, 125e6],
    });
  });
});

describe('what only some machines measure', () => {
  const offered = (max: Record<string, number>): string[] => {
    const run = { keys: [], evals: [], measures: (name: string) => (max[name] ?? 0) > 0 } as unknown as RunData;
    return CHARTS.filter(({ when }) => when?.(run) ?? true).map(({ id }) => id);
  };
  const chart = (id: string, values: Record<string, [number, number]>, more: object = {}) => {
    const run = Object.assign(runOf(values), { alerts: [], attempts: [], ...more });
    return CHARTS.find((one) => one.id === id)!.data(run, VIEW);
  };
  it('has a chart where it was measured', () => {
    const everywhere = offered({});
    expect(everywhere).toContain('loss');
    expect(offered({ power_w: 0 })).toEqual(everywhere);
    const gpu = { power_w: 300, busy_fraction: 0.9, 'gpu.utilization_percent': 97, 'gpu.memory_used_bytes': 4e10 };
    expect(offered(gpu)).toEqual([...everywhere, 'power', 'busy', 'gpu', 'gpu_memory']);
  });
  it('has the limit of power beside it', () => {
    const { lines } = chart('power', { power_w: [1200, 1350] }, { ranks: [0, 1], key: () => ({ max: 700 }) });
    expect(lines.map(({ kind, y }) => [kind, y])).toEqual([
      ['line', [1200, 1350]],
      ['limit', [1400, 1400]],
    ]);
    expect(chart('power', { power_w: [90, 95] }, { ranks: [0], key: () => undefined }).lines.length).toBe(1);
  });
  it("tells a GPU's use and memory", () => {
    const told = (id: string, key: string, value: number) =>
      chart(id, { [key]: [value, value] }).lines.map(({ label, y, format }) => `${label} ${format(y[1]!)}`);
    expect(told('gpu', 'gpu.utilization_percent', 97)).toEqual(['utilisation 97']);
    expect(told('gpu_memory', 'gpu.memory_used_bytes', 4.2e10)).toEqual(['used 42.0 GB']);
  });
});

describe('values that are not finite', () => {
  const rows = (steps: number[], broken: number[], times = 1): Series => ({
    ...emptySeries(),
    step: steps,
    timeMs: steps,
    avg: steps.map((step) => (broken.includes(step) ? null : 1)),
    nonFinite: Array.from({ length: times }, () => broken.map((step) => ({ step, kind: 'nan' }))).flat(),
  });
  const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, at) => from + at);
  it('are one band where they follow each other, and a mark where one stands alone', () => {
    const series = rows(range(1, 500), [7, ...range(251, 408)], 4); // told by four ranks
    expect(nonFiniteMarks(axis, series)).toEqual([
      { x: 7, kind: 'non-finite', label: 'nan at update 7' },
      { x: 251, to: 408, kind: 'non-finite', label: 'not finite, 251 to 408' },
    ]);
    expect(nonFiniteMarks(axis, series, 'base: ')[1]!.label).toBe('base: not finite, 251 to 408');
  });
  it('say how many they are where others lie between', () => {
    expect(nonFiniteMarks(axis, rows(range(1, 1000), [500, 503, 506]))).toEqual([
      { x: 500, to: 506, kind: 'non-finite', label: '3 not finite, 500 to 506' },
    ]);
  });
  it('go on to the last row without a value, whatever the server leaves out of its list', () => {
    const series = rows(range(1, 3000), range(501, 2500));
    series.nonFinite = series.nonFinite.slice(0, 1000);
    expect(stretches(series, 1)).toEqual([{ from: 501, to: 2500, count: 2000, kind: 'nan' }]);
    expect(nonFiniteMarks(axis, { ...series, step: [], avg: [], timeMs: [] })).toEqual([]);
  });
});

describe('scores of evaluations', () => {
  const evals = [
    { update: 10, time_ms: 1, set: 'valid', sacrebleu: null, teacher_forced_bleu: 12.5, accuracy: 0.4 },
    { update: 20, time_ms: 2, set: 'valid', sacrebleu: 20, teacher_forced_bleu: 30, accuracy: 0.5 },
    { update: 30, time_ms: 3, set: 'valid', sacrebleu: 22, accuracy: null },
  ];
  it('are kept apart by kind, each where it was measured', () => {
    const lines = (pick: 'sacrebleu' | 'teacher_forced_bleu' | 'accuracy', scale = 1) =>
      evalLines(runOf({}, evals), pick, pick, ['blue'], String, scale).map(({ x, y }) => [x, y]);
    expect(lines('sacrebleu')).toEqual([
      [
        [20, 30],
        [20, 22],
      ],
    ]);
    expect(lines('teacher_forced_bleu')).toEqual([
      [
        [10, 20],
        [12.5, 30],
      ],
    ]);
    expect(lines('accuracy', 100)).toEqual([
      [
        [10, 20],
        [40, 50],
      ],
    ]);
  });
  it('have a curve of each set, which its label names', () => {
    const beside = evals.map((row) => ({ ...row, set: 'general', sacrebleu: row.sacrebleu && 40 - row.sacrebleu }));
    const both = evals.flatMap((row, at) => [row, beside[at]!]);
    const lines = evalLines(runOf({}, both), 'sacrebleu', 'sacreBLEU', ['blue', 'violet'], String);
    expect(lines.map(({ label, color, y }) => [label, color, y])).toEqual([
      ['sacreBLEU (valid)', 'blue', [20, 22]],
      ['sacreBLEU (general)', 'violet', [20, 18]],
    ]);
  });
  it('have other colours for the validation set, another set and the training sample', () => {
    const row = { ...evals[0]!, loss: 2, teacher_forced_bleu: 9, accuracy: 0.5 };
    const sets = ['valid', 'general', 'training sample'].map((set) => ({ ...row, set }));
    const run = Object.assign(runOf({}, sets), {
      key: () => undefined,
      keys: [],
      checkpoints: [],
      alerts: [],
      attempts: [],
    });
    for (const id of ['loss', 'accuracy']) {
      const { data } = CHARTS.find((chart) => chart.id === id)!;
      const colors = data(run, { xAxis: 'update', smoothing: 0 } as never).lines.map(({ color }) => color);
      expect(colors.length, id).toBeGreaterThanOrEqual(3);
      expect(new Set(colors).size, id).toBe(colors.length);
    }
  });
  it('say how the translations were found', () => {
    expect(searchOf('model:\n  beam: 9\nvalidation:\n  every: 100u\n  beam: 4\nseed: 1\n')).toBe('beam 4');
    expect(searchOf('validation:\n  beam: 1\n')).toBe('greedy');
    expect(searchOf('validation:\n  every: 5\nother:\n  beam: 3\n')).toBe('beam search');
  });
});

describe('the loss by corpus', () => {
  const chart = CHARTS.find(({ id }) => id === 'corpora')!;
  const run = (values: Record<string, [number, number]>): RunData =>
    Object.assign(runOf(values), { keys: Object.keys(values).map((key) => ({ key })), alerts: [], attempts: [] });
  it('has a line for each named corpus', () => {
    const named = run({ loss: [3, 2], 'corpus_loss.clean': [2.5, 2], 'corpus_loss.crawl': [3.5, 3] });
    expect(chart.when?.(named)).toBe(true);
    expect(chart.keys(named)).toEqual(['corpus_loss.clean', 'corpus_loss.crawl']);
    const lines = chart.data(named, VIEW).lines.map(({ label, y }) => [label, y]);
    expect(lines).toEqual([
      ['clean', [2.5, 2]],
      ['crawl', [3.5, 3]],
    ]);
  });
  it('is not offered without names', () => {
    expect(chart.when?.(run({ loss: [3, 2] }))).toBe(false);
  });
});

describe('a loss beside the loss', () => {
  const chart = CHARTS.find(({ id }) => id === 'loss')!;
  const run = (values: Record<string, [number, number]>): RunData =>
    Object.assign(runOf(values), {
      keys: [],
      key: (key: string) => (key in values ? { key } : undefined),
      checkpoints: [],
      alerts: [],
      attempts: [],
    });
  const LOSS: [number, number] = [3, 2];
  it('is drawn where a run has it: R-Drop', () => {
    const twice = run({ loss: LOSS, r_drop_loss: [0.2, 0.1] });
    expect(chart.keys(twice)).toEqual(['loss', 'r_drop_loss']);
    const lines = chart.data(twice, VIEW).lines.map(({ label, y }) => [label, y]);
    expect(lines).toContainEqual(['R-Drop, training', [0.2, 0.1]]);
  });
  it('is drawn where a run has it: guided alignment', () => {
    const guided = run({ loss: LOSS, alignment_loss: [1, 0.5] });
    expect(chart.keys(guided)).toEqual(['loss', 'alignment_loss']);
    const lines = chart.data(guided, VIEW).lines.map(({ label, y }) => [label, y]);
    expect(lines).toContainEqual(['alignment, training', [1, 0.5]]);
    expect(chart.keys(run({ loss: LOSS }))).toEqual(['loss']);
    expect(chart.data(run({ loss: LOSS }), VIEW).lines.map(({ label }) => label)).toEqual(['training']);
  });
});

describe('sequences of known entropy', () => {
  const entropy = { update: 10, time_ms: 1, set: 'test', loss: 1.75, entropy: 1.5, excess: 0.25 };
  const run = (evals: object[]): RunData =>
    Object.assign(runOf({}, evals), {
      keys: [],
      key: () => undefined,
      measures: () => false,
      checkpoints: [],
      alerts: [],
      attempts: [],
    });
  const shownOf = (data: RunData): string[] =>
    CHARTS.filter(({ when }) => when === undefined || when(data)).map(({ id }) => id);
  const shown = (evals: object[]): string[] => shownOf(run(evals));
  it('have a chart of the excess instead of one of translations', () => {
    expect(shown([entropy])).toContain('excess');
    expect(shown([entropy])).not.toContain('bleu');
    expect(shown([{ ...entropy, entropy: undefined, excess: undefined }])).toContain('bleu');
    expect(shown([{ ...entropy, entropy: undefined, excess: undefined }])).not.toContain('excess');
    const excess = CHARTS.find(({ id }) => id === 'excess')!;
    const lines = excess.data(run([entropy]), VIEW).lines;
    expect(lines.map(({ label, y }) => [label, y])).toEqual([['validation', [0.25]]]);
  });
  it('and translation are not charted of emulated runs, which have no losses', () => {
    const absent = ['loss', 'excess', 'bleu', 'gradient'];
    const emulated = Object.assign(run([]), { run: { emulated: true } });
    expect(shownOf(emulated).filter((id) => absent.includes(id))).toEqual([]);
    expect(shown([]).filter((id) => absent.includes(id))).toEqual(['loss', 'bleu', 'gradient']);
  });
});

describe('metrics', () => {
  it('are written as their keys say', () => {
    expect(formatOf('network_tx_bytes_per_second')(1.5e6)).toBe('1.50 MB/s');
    expect(formatOf('eval:teacher_forced_bleu')(31.456)).toBe('31.46');
    expect(formatOf('memory_bytes.peak')(2e9)).toBe('2.00 GB');
    expect(formatOf('exposed_communication_ms')(123.4)).toBe('123 ms');
  });
});
