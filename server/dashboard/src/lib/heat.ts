import type { Series } from './series';

/// A rank is marked where it takes this much longer than the median of its peers.
export const STRAGGLES_ABOVE = 1.15;

export interface HeatRow {
  rank: number;
  values: (number | null)[];   // mean of the key in each column
  ratios: (number | null)[];   // to the median over ranks in that column
  meanRatio: number | null;
  straggling: number;          // share of the columns with a ratio above STRAGGLES_ABOVE
}

export interface HeatMap {
  from: number;                // steps; column c covers [from + c*width, from + (c+1)*width)
  width: number;
  columns: number;
  rows: HeatRow[];
}

/// The lower median: of two ranks the faster one, so that a single slow one stands out.
export function lowerMedian(values: readonly number[]): number | null {
  if (values.length === 0) return null;
  return values.toSorted((a, b) => a - b)[(values.length - 1) >> 1]!;
}

const mean = (values: readonly (number | null)[]): number | null => {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
};

function means(series: Series, from: number, width: number, columns: number): (number | null)[] {
  const sums = new Float64Array(columns);
  const counts = new Uint32Array(columns);
  series.step.forEach((step, row) => {
    const value = series.avg[row];
    const column = Math.floor((step - from) / width);
    if (value === null || value === undefined || column < 0 || column >= columns) return;
    sums[column]! += value;
    counts[column]! += 1;
  });
  return [...sums].map((sum, column) => (counts[column]! > 0 ? sum / counts[column]! : null));
}

/// Ranks over steps: what each took, and how that compares with its peers at the same time.
export function heatMap(ranks: readonly { rank: number; series: Series }[], range: readonly [number, number], most: number): HeatMap {
  const [from, to] = range;
  const columns = Math.max(1, Math.min(most, Math.floor(to - from) + 1, ...ranks.map(({ series }) => series.step.length || most)));
  const width = Math.max(1, (to - from + 1) / columns);
  const values = ranks.map(({ series }) => means(series, from, width, columns));
  const medians = Array.from({ length: columns }, (_, column) =>
    lowerMedian(values.map((row) => row[column] ?? null).filter((value) => value !== null)));
  const rows = ranks.map(({ rank }, at): HeatRow => {
    const ratios = values[at]!.map((value, column) => (value === null || !medians[column] ? null : value / medians[column]!));
    const known = ratios.filter((ratio) => ratio !== null);
    return { rank, values: values[at]!, ratios, meanRatio: mean(ratios),
      straggling: known.length > 0 ? known.filter((ratio) => ratio > STRAGGLES_ABOVE).length / known.length : 0 };
  });
  return { from, width, columns, rows };
}

/// 0 … 4 for how much slower than its peers, -1 and -2 for faster, null without a value.
export function heatLevel(ratio: number | null): number | null {
  if (ratio === null) return null;
  const bounds = [1.05, STRAGGLES_ABOVE, 1.3, 1.6];
  if (ratio < 0.8) return -2;
  if (ratio < 0.95) return -1;
  return bounds.filter((bound) => ratio > bound).length;
}
