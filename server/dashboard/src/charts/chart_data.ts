import type { Column } from '../lib/series';

/// line: the main curve. faint: raw values behind it. low, high: edges of the min/max band, always in this order.
/// area: filled to zero, drawn top layer first. points: a curve of few, marked points.
export type LineKind = 'line' | 'faint' | 'low' | 'high' | 'area' | 'points';

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

export interface ChartData {
  lines: Line[];
  note: string;                 // how the data was sampled
  nonFinite: number[];          // x of values that were not finite
}
