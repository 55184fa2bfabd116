import type { RunData } from '../data/run_data';
import { plainTick, siTick, type Tick, tickOf } from '../lib/axes';
import type { Child } from '../lib/dom';
import * as format from '../lib/format';
import { formatBytes, formatBytesPerSecond, formatMs, formatPercent, formatSi } from '../lib/format';
import type { ViewState } from '../lib/routes';
import { STEP_PARTS } from '../data/runs';
import type { EvalKey, Layer } from './lines';
import { checkpointMarks, evalLines, eventMarks, type Format, sideBySide, smoothed, stacked } from './lines';
import type { ChartData, Line } from './plot';

/// A chart of `Data`, which is a run or several compared ones.
export interface ChartDefinition<Data = RunData> {
  id: string;
  title: string;
  unit: string;
  keys: (data: Data) => readonly string[]; // its series: KEY or KEY@RANK
  evals?: readonly EvalKey[]; // its columns of the evaluations
  when?: (data: Data) => boolean; // absent: always
  stacked?: boolean; // layers add up, so a logarithmic axis would mislead
  axisFormat: Tick;
  data: (data: Data, view: ViewState) => ChartData;
  tools?: Child; // further buttons
}

const plain: Format = (value) => format.formatSignificant(value);
const score: Format = (value) => format.formatFixed(value, 2);
const percent: Format = (value) => `${format.formatFixed(value, 1)} %`;
const watts: Format = (value) => formatSi(value, 'W');
const layer = (name: string, label: string, color: string): Layer => ({ name, label, color });
const SPLIT: readonly Layer[] = STEP_PARTS.map(({ key, label, color }) => ({ name: key, label, color }));
const COLORS = ['blue', 'orange', 'teal', 'violet', 'navy', 'gray'];
const PEAK = 'memory_bytes.peak';
const TOTALS = [PEAK, 'memory_bytes.process']; // not parts of a stack

/// Shown beside the loss where a run has them.
const BESIDE_LOSS: readonly Layer[] = [
  layer('entropy', 'entropy, training', 'gray'),
  layer('alignment_loss', 'alignment, training', 'gray'),
  layer('r_drop_loss', 'R-Drop, training', 'gray'),
];

function lossData(run: RunData, view: ViewState): ChartData {
  const training = smoothed(run, view, layer('loss', 'training', 'blue'), plain);
  return {
    ...training,
    marks: [...training.marks, ...checkpointMarks(run)],
    lines: [
      ...training.lines,
      ...BESIDE_LOSS.filter(({ name }) => run.key(name)).flatMap((beside) => smoothed(run, view, beside, plain).lines),
      ...evalLines(run, 'loss', 'validation', ['orange', 'violet', 'teal', 'navy'], plain),
      ...evalLines(run, 'entropy', 'entropy', ['teal', 'navy'], plain),
    ],
  };
}

/// How far the model is from the source of its sequences, whose entropy is known.
function excessData(run: RunData, view: ViewState): ChartData {
  const validation = evalLines(run, 'excess', 'validation', ['orange', 'violet'], plain);
  if (!run.key('excess')) return { lines: validation, note: '', marks: checkpointMarks(run) };
  const training = smoothed(run, view, layer('excess', 'training', 'blue'), plain);
  const marks = [...training.marks, ...checkpointMarks(run)];
  return { ...training, marks, lines: [...training.lines, ...validation] };
}

const hasEntropy = (run: RunData): boolean =>
  run.evals.some(({ entropy }) => typeof entropy === 'number') || run.keys.some(({ key }) => key === 'entropy');

/// An emulated run has no losses, gradients or scores.
const computes = (run: RunData): boolean => run.run?.emulated !== true;

/// The search that produced the scored translations, read from the resolved configuration.
export function searchOf(config: string): string {
  const beam = Number(/^validation:\n(?:[ \t].*\n)*?[ \t]+beam: *(\d+)/m.exec(config)?.[1] ?? 0);
  return beam === 1 ? 'greedy' : beam > 1 ? `beam ${beam}` : 'beam search';
}

function scoreData(run: RunData): ChartData {
  const bleu = `sacreBLEU, ${searchOf(run.run?.config ?? '')}`;
  const lines = [
    ...evalLines(run, 'sacrebleu', bleu, ['blue', 'violet', 'orange'], score),
    ...evalLines(run, 'chrf', 'chrF', ['teal', 'navy', 'gray'], score),
  ];
  return { lines, note: run.evals.at(-1)?.signature ?? '', marks: checkpointMarks(run) };
}

/// Separate from translation scores: here each word is predicted from the correct words before it.
const forcedData = (run: RunData): ChartData => ({
  lines: [
    ...evalLines(run, 'teacher_forced_bleu', 'BLEU', ['orange', 'gray', 'blue'], score),
    ...evalLines(run, 'accuracy', 'accuracy', ['violet', 'navy', 'teal'], percent, 100),
  ],
  note: 'not comparable to translation scores',
  marks: [],
});

const networkLayers = (run: RunData): Layer[] =>
  run
    .hosts()
    .flatMap(({ host, rank }, at) =>
      (['rx', 'tx'] as const).map((way, second) => ({
        name: `network_${way}_bytes_per_second@${rank}`,
        label: `${host} ${way}`,
        color: COLORS[(2 * at + second) % COLORS.length]!,
      })),
    );

export const LINK = 'network_link_bytes_per_second';

/// One-way capacity of each host's link in bytes/s: as reported by its ranks, otherwise as entered by the user; null if unknown.
function linkCapacities(run: RunData, view: ViewState): (number | null)[] {
  const entered = view.linkGbit > 0 ? (view.linkGbit * 1e9) / 8 : null;
  return run
    .hosts()
    .map(({ rank }) => run.get(LINK, rank).avg.findLast((value) => value !== null && value > 0) ?? entered);
}

/// The capacity is drawn if traffic reaches this fraction of it. Below, it would flatten the curves, so only the note states it.
const FLAT_BELOW = 1 / 12;

export function networkData(run: RunData, view: ViewState): ChartData {
  const data = sideBySide(run, view, networkLayers(run), formatBytesPerSecond);
  const capacities = linkCapacities(run, view);
  const known = [...new Set(capacities)].filter((capacity) => capacity !== null);
  const ends = data.lines.flatMap(({ x }) => (x.length > 0 ? [x[0]!, x.at(-1)!] : []));
  if (known.length === 0 || ends.length === 0) return data;
  const most = (line: Line): number => line.y.reduce<number>((max, value) => Math.max(max, value ?? 0), 0);
  const shares = data.lines.map((line, at) => most(line) / (capacities[at >> 1] ?? Infinity)); // two lines per host
  const share = Math.max(...shares);
  const note = `${data.note} · busiest ${formatPercent(share, 0)} of its link's ${known.map(formatBytesPerSecond).join(' or ')}`;
  if (share < FLAT_BELOW) return { ...data, note };
  const x = [Math.min(...ends), Math.max(...ends)];
  const hostsOf = (capacity: number): string =>
    format.formatNames(run.hosts().flatMap(({ host }, at) => (capacities[at] === capacity ? [host] : [])));
  const limits = known.map((capacity) => {
    const label = known.length === 1 ? 'link capacity' : `link of ${hostsOf(capacity)}`;
    return limitLine(label, x, capacity, formatBytesPerSecond);
  });
  return { ...data, note, lines: [...data.lines, ...limits] };
}

const limitLine = (label: string, x: number[], limit: number, write: Format): Line => ({
  ...{ label, color: 'bad', kind: 'limit', legend: true, format: write },
  x,
  y: x.map(() => limit),
});

/// A layer for each of the run's keys that begin so, named without that.
const keyLayers = (run: RunData, start: string): Layer[] =>
  run.keys
    .filter(({ key }) => key.startsWith(start) && !TOTALS.includes(key))
    .slice(0, 12)
    .map(({ key }, at) => ({ name: key, label: key.slice(start.length), color: COLORS[at % COLORS.length]! }));

const namesOf = (layers: readonly { name: string }[]): string[] => layers.map(({ name }) => name);
const corpusLayers = (run: RunData): Layer[] => keyLayers(run, 'corpus_loss.');
const memoryLayers = (run: RunData): Layer[] => keyLayers(run, 'memory_bytes.');

const memoryData = (run: RunData, view: ViewState): ChartData =>
  run.key(PEAK)
    ? stacked(run, view, memoryLayers(run), layer(PEAK, 'peak of the process', 'text'), formatBytes)
    : sideBySide(run, view, memoryLayers(run), formatBytes);

function powerData(run: RunData, view: ViewState): ChartData {
  const data = smoothed(run, view, layer('power_w', 'power', 'orange'), watts);
  const limit = (run.key('power_limit_w')?.max ?? 0) * Math.max(1, run.ranks.length);
  const line = limitLine('limit', data.lines.at(-1)?.x ?? [], limit, watts);
  return limit > 0 ? { ...data, lines: [...data.lines, line] } : data;
}

function communicationData(run: RunData, view: ViewState): ChartData {
  const exposed = smoothed(run, view, layer('exposed_communication_ms', 'exposed: the step waits', 'orange'), formatMs);
  const all = layer('communication_ms', 'all collectives', 'gray');
  return { ...exposed, lines: [...exposed.lines, ...sideBySide(run, view, [all], formatMs).lines] };
}

type More = Partial<Pick<ChartDefinition, 'when' | 'data' | 'stacked' | 'axisFormat'>>;

type Head = readonly [id: string, title: string, unit: string];

/// A chart of one metric, in the format of its key.
const one = ([id, title, unit]: Head, key: string, label: string, color: string, more: More = {}): ChartDefinition => ({
  ...{ id, title, unit, keys: () => [key], axisFormat: tickOf(key) },
  data: (run, view) => smoothed(run, view, { name: key, label, color }, format.formatOf(key)),
  ...more,
});

/// Shown if the key was ever above 0. Power is 0 if it is not measured; others are absent without a GPU.
const measured = (key: string): More => ({ when: (run) => run.measures(key) });

/// A chart of evaluations, and perhaps of series.
const scores = (
  [id, title, unit]: Head,
  evals: readonly EvalKey[],
  when: (run: RunData) => boolean,
  data: ChartDefinition['data'],
  keys: ChartDefinition['keys'] = () => [],
): ChartDefinition => ({ id, title, unit, evals, when, data, keys, axisFormat: plainTick });

const unsmoothed =
  (data: ChartDefinition['data']): ChartDefinition['data'] =>
  (run, view) =>
    data(run, { ...view, smoothing: 0 });

const NATS = 'nats per target token';
const MEAN_MS = 'ms, mean over ranks';
const GPU_BUSY = 'gpu.utilization_percent';
const GPU_MEMORY = 'gpu.memory_used_bytes';
const RATE = one(['rate', 'Learning rate', ''], 'learning_rate', 'learning rate', 'violet');

const isScored = (run: RunData): boolean =>
  run.evals.some(({ accuracy, teacher_forced_bleu: bleu }) => (accuracy ?? bleu ?? null) !== null);

const CHARTS_ALONE: readonly ChartDefinition[] = [
  scores(['loss', 'Loss', NATS], ['loss', 'entropy'], computes, lossData, (run) => [
    'loss',
    ...namesOf(BESIDE_LOSS).filter((name) => run.key(name)),
  ]),
  {
    ...{ id: 'corpora', title: 'Loss by corpus', unit: NATS, axisFormat: plainTick },
    when: (run) => corpusLayers(run).length > 0,
    keys: (run) => namesOf(corpusLayers(run)),
    data: (run, view) => sideBySide(run, view, corpusLayers(run), plain),
  },
  scores(['excess', 'Excess over entropy', NATS], ['excess'], hasEntropy, excessData, (run) =>
    run.key('excess') ? ['excess'] : [],
  ),
  scores(
    ['bleu', 'Translation quality', 'held-out set'],
    ['sacrebleu', 'chrf'],
    (run) => computes(run) && !hasEntropy(run),
    scoreData,
  ),
  scores(['accuracy', 'Teacher-forced', 'no decoding'], ['teacher_forced_bleu', 'accuracy'], isScored, forcedData),
  { ...RATE, data: unsmoothed(RATE.data) },
  one(['gradient', 'Gradient norm', 'before clipping'], 'gradient_norm', 'gradient norm', 'navy', { when: computes }),
  one(['tokens', 'Target tokens per second', 'all ranks'], 'target_tokens_per_second', 'tokens/s', 'teal'),
  {
    ...{ id: 'split', title: 'Step time by phase', unit: MEAN_MS, stacked: true, axisFormat: plainTick },
    keys: () => ['step_ms', ...STEP_PARTS.map(({ key }) => key)],
    data: (run, view) => stacked(run, view, SPLIT, layer('step_ms', 'step', 'text'), formatMs),
  },
  {
    ...{ id: 'communication', title: 'Communication', unit: MEAN_MS, axisFormat: plainTick },
    keys: () => ['exposed_communication_ms', 'communication_ms'],
    data: communicationData,
  },
  {
    ...{ id: 'network', title: 'Network per host', unit: 'bytes/s', axisFormat: siTick('B') },
    keys: (run) => [
      ...namesOf(networkLayers(run)),
      ...(run.key(LINK) ? run.hosts().map(({ rank }) => `${LINK}@${rank}`) : []),
    ],
    data: networkData,
  },
  {
    ...{ id: 'memory', title: 'Memory by purpose', unit: 'sum over ranks', stacked: true, axisFormat: siTick('B') },
    when: (run) => memoryLayers(run).length > 0,
    keys: (run) => [PEAK, ...namesOf(memoryLayers(run))],
    data: unsmoothed(memoryData),
  },
  one(['power', 'Power', 'W, sum over ranks'], 'power_w', '', '', { ...measured('power_w'), data: powerData }),
  one(['busy', 'Busy', 'mean over ranks'], 'busy_fraction', 'busy', 'blue', measured('busy_fraction')),
  one(['gpu', 'GPU utilisation', '%, mean over ranks'], GPU_BUSY, 'utilisation', 'teal', measured(GPU_BUSY)),
  one(['gpu_memory', 'GPU memory used', 'sum over ranks'], GPU_MEMORY, 'used', 'violet', measured(GPU_MEMORY)),
];

/// The chart with marks for the run's alerts and new attempts.
const withEvents = (chart: ChartDefinition): ChartDefinition => ({
  ...chart,
  data: (run, view) => {
    const data = chart.data(run, view);
    return { ...data, marks: [...eventMarks(run), ...data.marks] };
  },
});

export const CHARTS: readonly ChartDefinition[] = CHARTS_ALONE.map(withEvents);
const OVER: Record<string, string> = { sum: 'sum over ranks', host_sum: 'sum over hosts', mean: 'mean over ranks' };

/// A chart of any metric key.
export const anyChart = (key: string, aggregate: string): ChartDefinition =>
  withEvents(one([`key-${key}`, key, OVER[aggregate] ?? aggregate], key, key, 'blue'));
