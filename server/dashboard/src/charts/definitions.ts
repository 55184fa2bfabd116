import { PARTS, type RunData } from '../data/run_data';
import {
  formatBytes,
  formatBytesPerSecond,
  formatFixed,
  formatMs,
  formatNames,
  formatPercent,
  formatSi,
  formatSignificant,
} from '../lib/format';
import type { ViewState } from '../lib/run_view';
import { percentTick, plainTick, siTick, type Tick } from '../lib/ticks';
import type { ChartData, Line } from './chart_data';
import {
  checkpointMarks,
  evalLines,
  eventMarks,
  sideBySide,
  smoothed,
  stacked,
  type EvalKey,
  type Format,
  type Layer,
} from './lines';

export interface ChartDefinition {
  id: string;
  title: string;
  unit: string;
  keys: (run: RunData) => readonly string[]; // its series: KEY or KEY@RANK
  evals?: readonly EvalKey[]; // its columns of the evaluations
  when?: (run: RunData) => boolean; // absent: always
  stacked?: boolean; // layers add up, so a logarithmic axis would mislead
  axisFormat: Tick;
  data: (run: RunData, view: ViewState) => ChartData;
}

const plain: Format = (value) => formatSignificant(value);
const rate: Format = (value) => formatSi(value);
const score: Format = (value) => formatFixed(value, 2);
const percent: Format = (value) => formatPercent(value);

const PART_STYLE: Record<(typeof PARTS)[number], [string, string]> = {
  data_ms: ['data', 'violet'],
  forward_ms: ['forward', 'blue'],
  backward_ms: ['backward', 'navy'],
  exposed_communication_ms: ['exposed communication', 'orange'],
  optimizer_ms: ['optimizer', 'teal'],
  other_ms: ['other', 'gray'],
};
const SPLIT: readonly Layer[] = PARTS.map((name) => ({ name, label: PART_STYLE[name][0], color: PART_STYLE[name][1] }));

const COLORS = ['blue', 'orange', 'teal', 'violet', 'navy', 'gray'];
const MEMORY = 'memory_bytes.';
const PEAK = 'memory_bytes.peak';
const TOTALS = [PEAK, 'memory_bytes.process']; // not parts of a stack

function lossData(run: RunData, view: ViewState): ChartData {
  const training = smoothed(run, view, 'loss', 'training', 'blue', plain);
  return {
    ...training,
    marks: [...training.marks, ...checkpointMarks(run)],
    lines: [
      ...training.lines,
      ...(run.key('entropy') ? smoothed(run, view, 'entropy', 'entropy, training', 'gray', plain).lines : []),
      ...evalLines(run, 'loss', 'validation', ['orange', 'violet'], plain),
      ...evalLines(run, 'entropy', 'entropy', ['teal', 'navy'], plain),
    ],
  };
}

/// How far the model is from the source of its sequences, whose entropy is known.
function excessData(run: RunData, view: ViewState): ChartData {
  const validation = evalLines(run, 'excess', 'validation', ['orange', 'violet'], plain);
  if (!run.key('excess')) return { lines: validation, note: '', marks: checkpointMarks(run) };
  const training = smoothed(run, view, 'excess', 'training', 'blue', plain);
  return {
    ...training,
    marks: [...training.marks, ...checkpointMarks(run)],
    lines: [...training.lines, ...validation],
  };
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
  const lines = [
    ...evalLines(run, 'sacrebleu', `sacreBLEU, ${searchOf(run.run?.config ?? '')}`, ['blue', 'violet'], score),
    ...evalLines(run, 'chrf', 'chrF', ['teal', 'navy'], score),
  ];
  return { lines, note: run.evals.at(-1)?.signature ?? '', marks: checkpointMarks(run) };
}

/// Separate from translation scores: here each word is predicted from the correct words before it.
function forcedData(run: RunData): ChartData {
  return {
    lines: [
      ...evalLines(run, 'teacher_forced_bleu', 'BLEU', ['orange', 'gray'], score),
      ...evalLines(run, 'accuracy', 'accuracy', ['violet', 'navy'], (value) => `${formatFixed(value, 1)} %`, 100),
    ],
    note: 'not comparable to translation scores',
    marks: [],
  };
}

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
  const limits = known.map(
    (capacity): Line => ({
      label:
        known.length === 1
          ? 'link capacity'
          : `link of ${formatNames(run.hosts().flatMap(({ host }, at) => (capacities[at] === capacity ? [host] : [])))}`,
      color: 'bad',
      kind: 'limit',
      x,
      y: x.map(() => capacity),
      legend: true,
      format: formatBytesPerSecond,
    }),
  );
  return { ...data, note, lines: [...data.lines, ...limits] };
}

const memoryLayers = (run: RunData): Layer[] =>
  run.keys
    .filter(({ key }) => key.startsWith(MEMORY) && !TOTALS.includes(key))
    .slice(0, 12)
    .map(({ key }, at) => ({ name: key, label: key.slice(MEMORY.length), color: COLORS[at % COLORS.length]! }));

const memoryData = (run: RunData, view: ViewState): ChartData =>
  run.key(PEAK)
    ? stacked(run, view, memoryLayers(run), { name: PEAK, label: 'peak of the process', color: 'text' }, formatBytes)
    : sideBySide(run, view, memoryLayers(run), formatBytes);

export const one =
  (key: string, label: string, color: string, format: Format) =>
  (run: RunData, view: ViewState): ChartData =>
    smoothed(run, view, key, label, color, format);

function powerData(run: RunData, view: ViewState): ChartData {
  const data = smoothed(run, view, 'power_w', 'power', 'orange', (value) => formatSi(value, 'W'));
  const limit = (run.key('power_limit_w')?.max ?? 0) * Math.max(1, run.ranks.length);
  const x = data.lines.at(-1)?.x ?? [];
  const line: Line = {
    label: 'limit',
    color: 'bad',
    kind: 'limit',
    x,
    y: x.map(() => limit),
    legend: true,
    format: (value) => formatSi(value, 'W'),
  };
  return limit > 0 ? { ...data, lines: [...data.lines, line] } : data;
}

/// A chart that is shown if its key was ever above 0. Power is 0 if it is not measured; the others are absent without a GPU.
const measured = (
  id: string,
  key: string,
  title: string,
  unit: string,
  axisFormat: ChartDefinition['axisFormat'],
  data: ChartDefinition['data'],
): ChartDefinition => ({ id, title, unit, keys: () => [key], when: (run) => run.measures(key), axisFormat, data });

const GPU_BUSY = 'gpu.utilization_percent';
const GPU_MEMORY = 'gpu.memory_used_bytes';

const CHARTS_ALONE: readonly ChartDefinition[] = [
  {
    id: 'loss',
    title: 'Loss',
    unit: 'nats per target token',
    keys: (run) => (run.key('entropy') ? ['loss', 'entropy'] : ['loss']),
    evals: ['loss', 'entropy'],
    when: computes,
    axisFormat: plainTick,
    data: lossData,
  },
  {
    id: 'excess',
    title: 'Excess over entropy',
    unit: 'nats per target token',
    keys: (run) => (run.key('excess') ? ['excess'] : []),
    evals: ['excess'],
    when: hasEntropy,
    axisFormat: plainTick,
    data: excessData,
  },
  {
    id: 'bleu',
    title: 'Translation quality',
    unit: 'held-out set',
    keys: () => [],
    evals: ['sacrebleu', 'chrf'],
    when: (run) => computes(run) && !hasEntropy(run),
    axisFormat: plainTick,
    data: scoreData,
  },
  {
    id: 'accuracy',
    title: 'Teacher-forced',
    unit: 'no decoding',
    keys: () => [],
    evals: ['teacher_forced_bleu', 'accuracy'],
    when: (run) => run.evals.some(({ accuracy, teacher_forced_bleu: bleu }) => (accuracy ?? bleu ?? null) !== null),
    axisFormat: plainTick,
    data: forcedData,
  },
  {
    id: 'rate',
    title: 'Learning rate',
    unit: '',
    keys: () => ['learning_rate'],
    axisFormat: plainTick,
    data: (run, view) => one('learning_rate', 'learning rate', 'violet', plain)(run, { ...view, smoothing: 0 }),
  },
  {
    id: 'gradient',
    title: 'Gradient norm',
    unit: 'before clipping',
    keys: () => ['gradient_norm'],
    when: computes,
    axisFormat: plainTick,
    data: one('gradient_norm', 'gradient norm', 'navy', plain),
  },
  {
    id: 'tokens',
    title: 'Target tokens per second',
    unit: 'all ranks',
    keys: () => ['target_tokens_per_second'],
    axisFormat: siTick(),
    data: one('target_tokens_per_second', 'tokens/s', 'teal', rate),
  },
  {
    id: 'split',
    title: 'Step time by phase',
    unit: 'ms, mean over ranks',
    keys: () => ['step_ms', ...PARTS],
    stacked: true,
    axisFormat: plainTick,
    data: (run, view) => stacked(run, view, SPLIT, { name: 'step_ms', label: 'step', color: 'text' }, formatMs),
  },
  {
    id: 'communication',
    title: 'Communication',
    unit: 'ms, mean over ranks',
    keys: () => ['exposed_communication_ms', 'communication_ms'],
    axisFormat: plainTick,
    data: (run, view) => {
      const exposed = smoothed(run, view, 'exposed_communication_ms', 'exposed: the step waits', 'orange', formatMs);
      const all = sideBySide(
        run,
        view,
        [{ name: 'communication_ms', label: 'all collectives', color: 'gray' }],
        formatMs,
      );
      return { ...exposed, lines: [...exposed.lines, ...all.lines] };
    },
  },
  {
    id: 'network',
    title: 'Network per host',
    unit: 'bytes/s',
    keys: (run) => [
      ...networkLayers(run).map(({ name }) => name),
      ...(run.key(LINK) ? run.hosts().map(({ rank }) => `${LINK}@${rank}`) : []),
    ],
    axisFormat: siTick('B'),
    data: networkData,
  },
  {
    id: 'memory',
    title: 'Memory by purpose',
    unit: 'sum over ranks',
    when: (run) => memoryLayers(run).length > 0,
    keys: (run) => [PEAK, ...memoryLayers(run).map(({ name }) => name)],
    stacked: true,
    axisFormat: siTick('B'),
    data: (run, view) => memoryData(run, { ...view, smoothing: 0 }),
  },
  measured('power', 'power_w', 'Power', 'W, sum over ranks', plainTick, powerData),
  measured(
    'busy',
    'busy_fraction',
    'Busy',
    'mean over ranks',
    percentTick,
    one('busy_fraction', 'busy', 'blue', percent),
  ),
  measured(
    'gpu',
    GPU_BUSY,
    'GPU utilisation',
    '%, mean over ranks',
    plainTick,
    one(GPU_BUSY, 'utilisation', 'teal', plain),
  ),
  measured(
    'gpu_memory',
    GPU_MEMORY,
    'GPU memory used',
    'sum over ranks',
    siTick('B'),
    one(GPU_MEMORY, 'used', 'violet', formatBytes),
  ),
];

/// The chart with marks for the run's alerts and new attempts.
export const withEvents = (chart: ChartDefinition): ChartDefinition => ({
  ...chart,
  data: (run, view) => {
    const data = chart.data(run, view);
    return { ...data, marks: [...eventMarks(run), ...data.marks] };
  },
});

export const CHARTS: readonly ChartDefinition[] = CHARTS_ALONE.map(withEvents);
