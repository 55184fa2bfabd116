import type { RunData } from '../data/run_data';
import { PARTS } from '../data/run_data';
import { ema } from '../lib/ema';
import { formatBytesPerSecond, formatCount, formatFixed, formatMs, formatSi, formatSignificant } from '../lib/format';
import { alignOnFirst, describeSampling, stack, xColumn, xValue, type Column, type Series } from '../lib/series';
import type { ViewState } from '../lib/view_state';
import type { ChartData, Line } from './chart_data';

export interface ChartDefinition {
  id: string;
  title: string;
  unit: string;
  csvKey: string | null;
  axisFormat: (value: number) => string;
  data: (run: RunData, view: ViewState) => ChartData;
}

type Format = (value: number | null) => string;

function note(series: Series): string {
  return describeSampling(series, formatCount);
}

function marks(series: Series, x: number[]): number[] {
  const at = new Map(series.step.map((step, row) => [step, x[row]!]));
  return series.nonFinite.flatMap(({ step }) => at.get(step) ?? []);
}

/// The smoothed curve, the raw one faint behind it, and the min/max band where rows sum up several updates.
function smoothed(series: Series, run: RunData, view: ViewState, label: string, color: string, format: Format): ChartData {
  const x = xColumn(series, view.x, run.startMs);
  const line = (kind: Line['kind'], y: Column, legend = false): Line => ({ label, color, kind, x, y, legend, format });
  const lines = series.sampled ? [line('low', series.min), line('high', series.max)] : [];
  if (view.smoothing > 0) lines.push(line('faint', series.avg));
  lines.push(line('line', ema(series.avg, view.smoothing), true));
  return { lines, note: note(series), nonFinite: marks(series, x) };
}

function evalLine(run: RunData, view: ViewState, pick: 'loss' | 'sacrebleu' | 'chrf', label: string, color: string,
  format: Format): Line {
  const rows = run.evals.filter((evaluation) => evaluation[pick] !== null);
  const x = rows.map((row) => xValue(row.update, row.time_ms, view.x, run.startMs));
  return { label, color, kind: 'points', x, y: rows.map((row) => row[pick]), legend: true, format };
}

function lossData(run: RunData, view: ViewState): ChartData {
  const training = smoothed(run.get('loss'), run, view, 'training', 'blue', (value) => formatSignificant(value));
  const validation = evalLine(run, view, 'loss', 'validation', 'orange', (value) => formatSignificant(value));
  return { ...training, lines: [...training.lines, validation] };
}

function bleuData(run: RunData, view: ViewState): ChartData {
  const lines = [evalLine(run, view, 'sacrebleu', 'sacreBLEU', 'blue', (value) => formatFixed(value, 2)),
    evalLine(run, view, 'chrf', 'chrF', 'teal', (value) => formatFixed(value, 2))];
  return { lines, note: run.evals.at(-1)?.signature ?? '', nonFinite: [] };
}

const PART_STYLE: Record<(typeof PARTS)[number], [string, string]> = {
  data_ms: ['data', 'violet'], forward_ms: ['forward', 'blue'], backward_ms: ['backward', 'navy'],
  exposed_communication_ms: ['exposed communication', 'orange'], optimizer_ms: ['optimizer', 'teal'], other_ms: ['other', 'gray'],
};

/// Layers from the bottom up; drawn from the top down, so that each covers the lower part of the one above it.
function splitData(run: RunData, view: ViewState): ChartData {
  const whole = run.get('step_ms');
  const columns = alignOnFirst([whole, ...PARTS.map((part) => run.get(part))]).slice(1);
  const sums = stack(columns);
  const x = xColumn(whole, view.x, run.startMs);
  const areas = PARTS.map((part, index): Line => ({ label: PART_STYLE[part][0], color: PART_STYLE[part][1], kind: 'area', x,
    y: sums[index]!, values: columns[index]!, legend: true, format: formatMs })).reverse();
  const step: Line = { label: 'step', color: 'text', kind: 'line', x, y: whole.avg, legend: true, format: formatMs };
  return { lines: [...areas, step], note: `mean over ranks · ${note(whole)}`, nonFinite: [] };
}

function networkData(run: RunData, view: ViewState): ChartData {
  const colors = ['blue', 'orange', 'teal', 'violet', 'navy', 'gray'];
  const lines = run.hosts().flatMap(({ host, rank }, index) => (['rx', 'tx'] as const).map((way, second): Line => {
    const series = run.get(`network_${way}_bytes_per_second`, rank);
    return { label: `${host} ${way}`, color: colors[(2 * index + second) % colors.length]!, kind: 'line', legend: true,
      x: xColumn(series, view.x, run.startMs), y: ema(series.avg, view.smoothing), format: formatBytesPerSecond };
  }));
  const first = run.hosts()[0];
  const smooth = view.smoothing > 0 ? `smoothed ${view.smoothing} · ` : '';
  return { lines, nonFinite: [],
    note: first ? smooth + note(run.get('network_rx_bytes_per_second', first.rank)).replace('min/avg/max', 'averages') : '' };
}

const single = (key: string, label: string, color: string, format: Format) => (run: RunData, view: ViewState): ChartData =>
  smoothed(run.get(key), run, view, label, color, format);

const rate: Format = (value) => formatSi(value);
const plain: Format = (value) => formatSignificant(value);

export const CHARTS: readonly ChartDefinition[] = [
  { id: 'loss', title: 'Loss', unit: 'nats per target token', csvKey: 'loss', axisFormat: plain, data: lossData },
  { id: 'bleu', title: 'Translation quality', unit: 'held-out set', csvKey: null, axisFormat: plain, data: bleuData },
  { id: 'split', title: 'Where a step goes', unit: 'ms per update', csvKey: 'step_ms', axisFormat: plain, data: splitData },
  { id: 'tokens', title: 'Target tokens per second', unit: 'all ranks', csvKey: 'target_tokens_per_second', axisFormat: rate,
    data: single('target_tokens_per_second', 'tokens/s', 'teal', rate) },
  { id: 'network', title: 'Network per host', unit: 'bytes/s', csvKey: 'network_rx_bytes_per_second',
    axisFormat: (value) => formatSi(value, 'B'), data: networkData },
  { id: 'rate', title: 'Learning rate', unit: '', csvKey: 'learning_rate', axisFormat: plain,
    data: (run, view) => smoothed(run.get('learning_rate'), run, { ...view, smoothing: 0 }, 'learning rate', 'violet', plain) },
  { id: 'gradient', title: 'Gradient norm', unit: 'before clipping', csvKey: 'gradient_norm', axisFormat: plain,
    data: single('gradient_norm', 'gradient norm', 'navy', plain) },
];
