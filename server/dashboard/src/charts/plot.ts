import type uPlot from 'uplot';
import { clockTicks, logStep, type Tick, TIME_STEPS, xTick } from '../lib/axes';
import type { Column, XMode } from '../lib/series';

const known = new Map<string, string>(); // cache: each lookup in the style sheet forces a layout

const isDark = (scheme: string): boolean =>
  scheme.includes('dark') && (!scheme.includes('light') || matchMedia('(prefers-color-scheme: dark)').matches);

/// A colour from the style sheet, where each is light-dark(#…, #…), so that charts follow the theme.
export function color(name: string): string {
  let found = known.get(name);
  if (found === undefined) {
    const style = getComputedStyle(document.documentElement);
    const [light = '#888888', dark = light] = style.getPropertyValue(`--${name}`).match(/#\w+/g) ?? [];
    known.set(name, (found = isDark(style.colorScheme) ? dark : light));
  }
  return found;
}

/// Calls `work` when the system's theme changes or the user switches it.
export function onThemeChange(work: () => void): () => void {
  const listening = new AbortController();
  const changed = (): void => {
    known.clear();
    work();
  };
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed, listening);
  window.addEventListener('themechange', changed, listening);
  known.clear();
  return () => listening.abort();
}

/// line: the main curve. faint: raw values behind it. low, high: edges of the min/max band, always in this order.
/// area: filled to zero, drawn top layer first. points: a curve of few, marked points. limit: a dashed line.
export type LineKind = 'line' | 'faint' | 'low' | 'high' | 'area' | 'points' | 'limit';

/// The x of a plot's rows, and a line's values in them.
export type Xs = ArrayLike<number>;
export type Values = ArrayLike<number | null | undefined>;
type Range = readonly [number, number];

export interface Line {
  label: string;
  color: string; // name of a colour of the style sheet
  kind: LineKind;
  x: number[];
  y: Column;
  values?: Column; // values for the legend if y is a running sum
  legend: boolean;
  format: (value: number | null) => string;
}

/// An event, drawn at its x on top of the plot. `to`: x of its end, for an event with a duration.
export type Mark = { x: number; to?: number; kind: MarkKind; label: string };
export type MarkKind = 'non-finite' | 'alert' | 'checkpoint' | 'attempt';

/// `note` says how the data was sampled.
export type ChartData = { lines: Line[]; note: string; marks: Mark[] };

/// Number of rows of the table for screen readers.
const SPOKEN_ROWS = 12;

/// Evenly spaced row indices out of `count` rows, always including the last.
export function spread(count: number, most = SPOKEN_ROWS): number[] {
  if (count <= most) return Array.from({ length: count }, (_, row) => row);
  return Array.from({ length: most }, (_, at) => Math.round((at * (count - 1)) / (most - 1)));
}

/// The row with the value nearest to `x`; `xs` are the ascending x of the column. This is how the cursor finds its row. Of two rows
/// at the same distance, the later one; null if the column has no value.
export function nearestRow(xs: Xs, column: Values, x: number): number | null {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle]! < x) low = middle + 1;
    else high = middle;
  }
  const known = (row: number): boolean => column[row] !== null && column[row] !== undefined;
  let after = low;
  while (after < xs.length && !known(after)) after += 1;
  let before = low - 1;
  while (before >= 0 && !known(before)) before -= 1;
  if (after >= xs.length) return before < 0 ? null : before;
  return before >= 0 && x - xs[before]! < xs[after]! - x ? before : after;
}

/// A line's value nearest to `x`, with its place if it is more than `far` away. A limit has the same value everywhere.
export function readLine(
  line: Line,
  xs: Xs,
  column: Values,
  x: number,
  far: number,
  place: (x: number) => string,
): string {
  const row = nearestRow(xs, column, x);
  if (row === null) return line.format(null);
  const away = line.kind !== 'limit' && Math.abs(xs[row]! - x) > far;
  return line.format(column[row]!) + (away ? ` @${place(xs[row]!)}` : '');
}

/// Isolated rows with a value, which a line alone would not show. Undefined rows belong to other lines.
export function isolatedRows(column: Values): number[] {
  const found: number[] = [];
  let before: number | null = null; // the row of the line before this one
  let beforeKnown = false; // and whether it has a value
  let alone: number | null = null;
  for (let row = 0; row < column.length; row += 1) {
    const value = column[row];
    if (value === undefined) continue;
    if (alone !== null && value === null) found.push(alone);
    alone = value !== null && (before === null || !beforeKnown) ? row : null;
    before = row;
    beforeKnown = value !== null;
  }
  if (alone !== null) found.push(alone);
  return found;
}

/// Range [from, to] scaled by `factor` around `center` and clamped to `full`; null if it covers all of `full`.
export function zoomed(range: Range, center: number, factor: number, full: Range): [number, number] | null {
  const from = Math.max(full[0], center - (center - range[0]) * factor);
  const to = Math.min(full[1], center + (range[1] - center) * factor);
  return from <= full[0] && to >= full[1] ? null : [from, to];
}

const FONT = '11px system-ui, sans-serif';

export function axisOf(options: uPlot.Axis): uPlot.Axis {
  const grid = { stroke: color('grid'), width: 1 };
  return { stroke: color('muted'), font: FONT, grid, ticks: { ...grid, size: 4 }, ...options };
}

/// Draws points for isolated values between gaps.
const alone = (stroke: string): uPlot.Series.Points => ({
  show: true,
  size: 5,
  width: 0,
  fill: stroke,
  stroke,
  filter: (plot, series) => isolatedRows(plot.data[series] ?? []),
});

type Style = (stroke: string) => Partial<uPlot.Series>;
const edge: Style = (stroke) => ({ stroke: `${stroke}73`, width: 0.75 }); // thin, so that a spike of one step stays visible

const STYLES: Record<LineKind, Style> = {
  line: (stroke) => ({ stroke, width: 1.75, points: alone(stroke) }),
  faint: (stroke) => ({ stroke: `${stroke}52`, width: 1 }),
  low: edge,
  high: edge,
  area: (stroke) => ({ stroke, width: 0.5, fill: stroke, points: alone(stroke) }),
  points: (stroke) => ({
    ...{ stroke, width: 1.5 },
    points: { show: true, size: 6, fill: color('panel'), width: 1.5, stroke },
  }),
  limit: (stroke) => ({ stroke, width: 1, dash: [6, 4] }),
};

export const seriesOf = (line: Line): uPlot.Series => ({
  ...{ label: line.label, spanGaps: false, points: { show: false } },
  ...STYLES[line.kind](color(line.color)),
});

/// Ticks of a logarithmic axis at 1, 2, … 9 times each power of ten.
export function logTicks(from: number, to: number): number[] {
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(from)); ticks.length < 400; power += 1) {
    for (let digit = 1; digit <= 9; digit += 1) {
      const tick = Number(`${digit}e${power}`);
      if (tick > to) return ticks;
      if (tick >= from) ticks.push(tick);
    }
  }
  return ticks;
}

/// The ticks with labels: powers of ten over many decades, 1, 2 and 5 over fewer, otherwise all.
export function logLabels(ticks: readonly (number | null)[]): (number | null)[] {
  const known = ticks.filter((tick) => tick !== null);
  const decades = known.length > 1 ? Math.log10(known.at(-1)! / known[0]!) : 0;
  const digits = decades > 2.5 ? [1] : decades > 0.9 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
  return ticks.map((tick) => (tick !== null && digits.includes(Number(tick.toExponential()[0])) ? tick : null));
}

const logAxis = (log: boolean): uPlot.Axis =>
  log ? { splits: (_plot, _axis, from, to) => logTicks(from, to), filter: (_plot, ticks) => logLabels(ticks) } : {};

const labels = (log: boolean, write: Tick): uPlot.Axis => ({
  values: (_plot, ticks, _axis, _space, step) =>
    ticks.map((tick) => (tick === null ? '' : write(tick, log ? logStep(tick) : step))),
});

/// The y axis.
export const yAxis = (log: boolean, write: Tick): uPlot.Axis =>
  axisOf({ ...logAxis(log), ...labels(log, write), size: 60, space: 34 });

/// The x axis. Times have ticks at round seconds, minutes, hours and days.
export function xAxisOf(mode: XMode, log: boolean): uPlot.Axis {
  const times: uPlot.Axis = mode !== 'elapsed' && mode !== 'wall' ? {} : { incrs: [...TIME_STEPS] };
  if (mode === 'wall')
    times.splits = (_plot, _axis, from, to, step) =>
      clockTicks(from, to, step, -60 * new Date(from * 1000).getTimezoneOffset());
  return axisOf({
    ...times,
    ...logAxis(log),
    ...labels(log, (value, step) => xTick(mode, value, step)),
    size: 30,
    space: 64,
  });
}

const LOG_MARGIN = 1.12;

/// The range of the y axis. With areas it starts at zero.
export function yScale(lines: readonly Line[], log: boolean): uPlot.Scale {
  if (log) return { distr: 3, range: (_plot, min, max) => (min > 0 ? [min / LOG_MARGIN, max * LOG_MARGIN] : [0.1, 1]) };
  const areas = lines.some(({ kind }) => kind === 'area');
  return areas ? { range: (_plot, _min, max) => [0, max > 0 ? max * 1.06 : 1] as uPlot.Range.MinMax } : {};
}

/// The min/max band of each pair of edges.
export const bandsOf = (lines: readonly Line[]): uPlot.Band[] =>
  lines.flatMap((line, at) =>
    line.kind === 'low' ? [{ series: [at + 2, at + 1] as [number, number], fill: `${color(line.color)}2e` }] : [],
  );

const COLORS: Record<MarkKind, string> = { 'non-finite': 'bad', alert: 'warn', checkpoint: 'teal', attempt: 'gray' };
const NEAR_PX = 6;
const DIAMOND = [0, -2, 1, -1, 0, 0, -1, -1]; // x and y of each corner, in its size

/// Draws marks: triangles at the top for faults, diamonds at the bottom for checkpoints, dashed lines for new attempts.
export function drawMarks(plot: uPlot, marks: readonly Mark[]): void {
  const { ctx, bbox } = plot;
  ctx.save();
  for (const mark of marks) {
    const left = plot.valToPos(mark.x, 'x', true);
    const tint = color(COLORS[mark.kind]);
    if (mark.to !== undefined) drawBand(plot, left, plot.valToPos(mark.to, 'x', true), tint, mark.label);
    else if (left >= bbox.left && left <= bbox.left + bbox.width) drawMark(plot, left, mark.kind, tint);
  }
  ctx.restore();
}

function drawMark({ ctx, bbox }: uPlot, left: number, kind: MarkKind, tint: string): void {
  const unit = devicePixelRatio;
  const bottom = bbox.top + bbox.height;
  ctx.fillStyle = ctx.strokeStyle = tint;
  ctx.beginPath();
  if (kind === 'checkpoint') {
    for (let at = 0; at < DIAMOND.length; at += 2)
      ctx.lineTo(left + DIAMOND[at]! * 3.5 * unit, bottom + DIAMOND[at + 1]! * 3.5 * unit);
    return ctx.fill();
  }
  ctx.globalAlpha = 0.55;
  ctx.lineWidth = unit;
  ctx.setLineDash([3 * unit, 3 * unit]);
  ctx.moveTo(left, bbox.top);
  ctx.lineTo(left, bottom);
  ctx.stroke();
  ctx.globalAlpha = 1;
  if (kind === 'attempt') return;
  const size = 5 * unit;
  ctx.beginPath();
  ctx.moveTo(left - size, bbox.top);
  ctx.lineTo(left + size, bbox.top);
  ctx.lineTo(left, bbox.top + 1.6 * size);
  ctx.fill();
}

const BAND_PX = 3; // min width

/// A shaded stretch of the plot with its label at the top, if there is space.
function drawBand({ ctx, bbox }: uPlot, from: number, to: number, tint: string, label: string): void {
  const unit = devicePixelRatio;
  const left = Math.max(from - unit, bbox.left);
  const width = Math.min(Math.max(to + unit, from + BAND_PX * unit), bbox.left + bbox.width) - left;
  if (width <= 0) return;
  ctx.fillStyle = tint;
  ctx.globalAlpha = 0.14;
  ctx.fillRect(left, bbox.top, width, bbox.height);
  ctx.globalAlpha = 1;
  ctx.fillRect(left, bbox.top, width, 2 * unit);
  ctx.font = `${11 * unit}px system-ui, sans-serif`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'top';
  const space = 4 * unit;
  const lines = label.split(', ');
  if (lines.every((line) => ctx.measureText(line).width + 2 * space <= width))
    lines.forEach((line, at) => ctx.fillText(line, left + space, bbox.top + (6 + 14 * at) * unit));
}

/// The labels of the marks under the cursor.
export const marksNear = (plot: uPlot, marks: readonly Mark[], left: number): string[] =>
  marks
    .filter(({ x, to = x }) => left >= plot.valToPos(x, 'x') - NEAR_PX && left <= plot.valToPos(to, 'x') + NEAR_PX)
    .map(({ label }) => label);
