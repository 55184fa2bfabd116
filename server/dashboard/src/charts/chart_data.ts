import type { Column } from '../lib/series';

/// line: the main curve. faint: raw values behind it. low, high: edges of the min/max band, always in this order.
/// area: filled to zero, drawn top layer first. points: a curve of few, marked points. limit: a dashed line.
export type LineKind = 'line' | 'faint' | 'low' | 'high' | 'area' | 'points' | 'limit';

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

/// An event, drawn at its x on top of the plot.
export interface Mark {
  x: number;
  to?: number; // x of its end, for an event with a duration
  kind: 'non-finite' | 'alert' | 'checkpoint' | 'attempt';
  label: string;
}

export interface ChartData {
  lines: Line[];
  note: string; // how the data was sampled
  marks: Mark[];
}

/// Number of rows of the table for screen readers.
const SPOKEN_ROWS = 12;

/// Evenly spaced row indices out of `count` rows, always including the last.
export function spread(count: number, most = SPOKEN_ROWS): number[] {
  if (count <= most) return Array.from({ length: count }, (_, row) => row);
  return Array.from({ length: most }, (_, at) => Math.round((at * (count - 1)) / (most - 1)));
}

/// The row with the value nearest to `x`; `xs` are the ascending x of the column. This is how the cursor finds its row. Of two rows
/// at the same distance, the later one; null if the column has no value.
export function nearestRow(
  xs: ArrayLike<number>,
  column: readonly (number | null | undefined)[],
  x: number,
): number | null {
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
  xs: ArrayLike<number>,
  column: readonly (number | null | undefined)[],
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
export function isolatedRows(column: ArrayLike<number | null | undefined>): number[] {
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
export function zoomed(
  range: readonly [number, number],
  center: number,
  factor: number,
  full: readonly [number, number],
): [number, number] | null {
  const from = Math.max(full[0], center - (center - range[0]) * factor);
  const to = Math.min(full[1], center + (range[1] - center) * factor);
  return from <= full[0] && to >= full[1] ? null : [from, to];
}
