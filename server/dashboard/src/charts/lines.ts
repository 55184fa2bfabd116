import type { Evaluation } from '../api/types';
import type { RunData } from '../data/run_data';
import { type XAxis, xColumn, xOfStep, xOfTime, xValue } from '../lib/axes';
import { formatCount } from '../lib/format';
import type { ViewState } from '../lib/routes';
import { setName } from '../data/runs';
import { alignOnFirst, type Column, describeSampling, ema, type Series, stack } from '../lib/series';
import type { ChartData, Line, Mark } from './plot';

export type Format = (value: number | null) => string;
export type EvalKey = 'loss' | 'sacrebleu' | 'chrf' | 'teacher_forced_bleu' | 'accuracy' | 'entropy' | 'excess';

export const noteOf = (series: Series, view: ViewState): string =>
  describeSampling(series, formatCount) + (view.smoothing > 0 ? ` · smoothed ${view.smoothing}` : '');

const CLOSE = 1 / 200; // fraction of the series; closer marks are merged
type Stretch = { from: number; to: number; count: number; kind: string };

/// Ranges of steps with non-finite values; ranges closer than `gap` steps are merged. Each rank has its own entry for a step. The
/// server returns at most NON_FINITE_TOLD entries; beyond, rows without a value extend the last range.
export function stretches(series: Pick<Series, 'step' | 'avg' | 'nonFinite'>, gap: number): Stretch[] {
  const found: Stretch[] = [];
  for (const { step, kind } of series.nonFinite.toSorted((a, b) => a.step - b.step)) {
    const last = found.at(-1);
    if (last && step === last.to) continue;
    if (last && step - last.to <= gap) Object.assign(last, { to: step, count: last.count + 1 });
    else found.push({ from: step, to: step, count: 1, kind });
  }
  const last = found.at(-1);
  if (last && series.nonFinite.length >= NON_FINITE_TOLD) {
    for (
      let row = series.step.findIndex((step) => step > last.to);
      row >= 0 && row < series.step.length && series.avg[row] === null;
      row += 1
    ) {
      last.count += series.step[row]! - last.to;
      last.to = series.step[row]!;
    }
  }
  return found;
}

const NON_FINITE_TOLD = 1000;

/// Marks for non-finite values, which the curve cannot show: a mark for one, a band for several. Labels start with `whose`.
export function nonFiniteMarks(axis: XAxis, series: Series, whose = ''): Mark[] {
  const { step } = series;
  const place = (at: number): number => xOfStep(axis, series, at) ?? xValue(axis, at, series.timeMs.at(-1) ?? 0);
  return stretches(series, Math.max(1, ((step.at(-1) ?? 0) - (step[0] ?? 0)) * CLOSE)).flatMap(
    ({ from, to, count, kind }): Mark[] => {
      if (step.length === 0) return [];
      if (from === to)
        return [{ x: place(from), kind: 'non-finite', label: `${whose}${kind} at update ${formatCount(from)}` }];
      const what = count === to - from + 1 ? 'not finite' : `${formatCount(count)} not finite`;
      const label = `${whose}${what}, ${formatCount(from)} to ${formatCount(to)}`;
      return [{ x: place(from), to: place(to), kind: 'non-finite', label }];
    },
  );
}

/// Marks for the run's alerts and new attempts, the same on every chart. They are placed by their updates: the times of alerts are by
/// the server's clock, which may differ from that of the records, and these may have come later.
export function eventMarks(run: RunData): Mark[] {
  const series = run.get('loss');
  return [
    ...run.alerts.flatMap(({ message, update, raised_at }): Mark[] => {
      const byTime = (): number | null => xOfTime(run.axis, series, Date.parse(raised_at!)); // of an older server
      const x = update === null ? byTime() : xOfStep(run.axis, series, update);
      return x === null ? [] : [{ x, kind: 'alert', label: message }];
    }),
    ...run.attempts.flatMap(({ attempt, first_update }): Mark[] => {
      const shown = first_update !== null && first_update >= (series.step[0] ?? Infinity);
      const x = attempt > 1 && shown ? xOfStep(run.axis, series, first_update) : null;
      return x === null ? [] : [{ x, kind: 'attempt', label: `attempt ${attempt}` }];
    }),
  ];
}

export const checkpointMarks = (run: RunData): Mark[] =>
  run.checkpoints.flatMap((checkpoint): Mark[] => {
    const x = xOfStep(run.axis, run.get('loss'), checkpoint.update);
    return x === null ? [] : [{ x, kind: 'checkpoint', label: `checkpoint ${formatCount(checkpoint.update)}` }];
  });

/// The smoothed curve, the raw one faint behind it, and the min/max band if the series is sampled.
export function smoothed(run: RunData, view: ViewState, layer: Layer, format: Format): ChartData {
  const series = run.series.get(layer.name);
  const lines = curves(run.axis, series, view.smoothing, { ...layer, format });
  return { lines, note: noteOf(series, view), marks: nonFiniteMarks(run.axis, series) };
}

/// A line's look: `band` for the min/max of sampled series, `raw` for the values behind the smoothed curve.
type Look = { label: string; color: string; format: Format; band?: boolean; raw?: boolean };

/// The lines of one series.
export function curves(axis: XAxis, series: Series, smoothing: number, look: Look): Line[] {
  const { label, color, format, band = true, raw = true } = look;
  const x = xColumn(axis, series);
  const line = (kind: Line['kind'], y: Column, legend = false): Line => ({ label, color, kind, x, y, legend, format });
  const lines = series.sampled && band ? [line('low', series.min), line('high', series.max)] : [];
  if (smoothing > 0 && raw) lines.push(line('faint', series.avg));
  return [...lines, line('line', ema(series.avg, smoothing), true)];
}

/// A measure of evaluations, times `scale`.
export const points = (
  axis: XAxis,
  rows: readonly Evaluation[],
  measure: keyof Evaluation,
  look: Omit<Look, 'band' | 'raw'>,
  scale = 1,
): Line => ({
  ...{ ...look, kind: 'points', legend: true },
  x: rows.map((row) => xValue(axis, row.update, row.time_ms)),
  y: rows.map((row) => (typeof row[measure] === 'number' ? row[measure] * scale : null)),
});

/// One curve per held-out set: a measure of its evaluations, times `scale`.
export function evalLines(
  run: RunData,
  pick: EvalKey,
  label: string,
  colors: readonly string[],
  format: Format,
  scale = 1,
): Line[] {
  const known = run.evals.filter((row) => row[pick] !== null && row[pick] !== undefined);
  const sets = [...new Set(known.map(({ set }) => set))];
  return sets.map((set, at) => {
    const rows = known.filter((row) => row.set === set);
    const title = sets.length > 1 ? `${label} (${setName(set)})` : label;
    return points(run.axis, rows, pick, { label: title, color: colors[at % colors.length]!, format }, scale);
  });
}

export type Layer = { name: string; label: string; color: string };
type Layers = readonly Layer[];

/// Stacked layers, given from the bottom up and drawn from the top down, so that each covers the lower part of the one above. All
/// are smoothed alike, so that they still add up to `whole` (the last line).
export function stacked(run: RunData, view: ViewState, layers: Layers, whole: Layer, format: Format): ChartData {
  const top = run.series.get(whole.name);
  const columns = alignOnFirst([top, ...layers.map(({ name }) => run.series.get(name))])
    .slice(1)
    .map((column) => ema(column, view.smoothing));
  const sums = stack(columns);
  const x = xColumn(run.axis, top);
  const areaOf = ({ label, color }: Layer, at: number): Line => {
    return { label, color, kind: 'area', x, y: sums[at]!, values: columns[at]!, legend: true, format };
  };
  const y = ema(top.avg, view.smoothing);
  const edge: Line = { label: whole.label, color: whole.color, kind: 'line', x, y, legend: true, format };
  const lines = [...layers.map(areaOf).reverse(), edge];
  return { lines, note: noteOf(top, view).replace('min/avg/max', 'averages'), marks: [] };
}

/// Plain averages of several series side by side.
export function sideBySide(run: RunData, view: ViewState, layers: Layers, format: Format): ChartData {
  const lines = layers.map(({ name, label, color }): Line => {
    const series = run.series.get(name);
    const y = ema(series.avg, view.smoothing);
    return { label, color, kind: 'line', legend: true, format, x: xColumn(run.axis, series), y };
  });
  const note = layers[0] ? noteOf(run.series.get(layers[0].name), view) : '';
  return { lines, note: note.replace('min/avg/max', 'averages'), marks: [] };
}
