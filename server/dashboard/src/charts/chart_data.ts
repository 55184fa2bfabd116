import type { Column } from '../lib/series';

/// line: the main curve. faint: raw values behind it. low, high: edges of the min/max band, always in this order.
/// area: filled to zero, drawn top layer first. points: a curve of few, marked points. limit: a dashed line.
export type LineKind = 'line' | 'faint' | 'low' | 'high' | 'area' | 'points' | 'limit';

export interface Line {
  label: string;
  color: string;     // name of a colour of the style sheet
  kind: LineKind;
  x: number[];
  y: Column;
  values?: Column;   // what the legend says where y is a running sum
  legend: boolean;
  format: (value: number | null) => string;
}

/// Something that happened, drawn at its x on top of the plot.
export interface Mark {
  x: number;
  kind: 'non-finite' | 'alert' | 'checkpoint' | 'attempt';
  label: string;
}

export interface ChartData {
  lines: Line[];
  note: string;      // how the data was sampled
  marks: Mark[];
}

/// How many rows the table that screen readers get has.
const SPOKEN_ROWS = 12;

/// Rows of `count` at equal distances, the last one always among them.
export function spread(count: number, most = SPOKEN_ROWS): number[] {
  if (count <= most) return Array.from({ length: count }, (_, row) => row);
  return Array.from({ length: most }, (_, at) => Math.round((at * (count - 1)) / (most - 1)));
}

/// The value of a column at a row, or the last one before it: sparse lines hold.
export function valueAt(column: readonly (number | null | undefined)[], row: number): number | null {
  for (let at = Math.min(row, column.length - 1); at >= 0; at -= 1) {
    const value = column[at];
    if (value !== null && value !== undefined) return value;
  }
  return null;
}

/// Range [from, to] scaled by `factor` around `center`, kept within `full`; null when it reaches all of it.
export function zoomed(range: readonly [number, number], center: number, factor: number, full: readonly [number, number]): [number, number] | null {
  const from = Math.max(full[0], center - (center - range[0]) * factor);
  const to = Math.min(full[1], center + (range[1] - center) * factor);
  return from <= full[0] && to >= full[1] ? null : [from, to];
}
