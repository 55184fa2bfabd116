import type { Series } from './series';

/// A rank is slow if it takes more than this factor of the median over all ranks.
export const STRAGGLES_ABOVE = 1.15;

export interface HeatRow {
  rank: number;
  values: (number | null)[]; // mean of the key in each column
  ratios: (number | null)[]; // to the median over ranks in that column
  meanRatio: number | null;
  straggling: number; // fraction of columns with a ratio above STRAGGLES_ABOVE
  lastSlow: number | null; // the step at which the last such column ends
  slowNow: boolean; // whether most of the newest tenth of the columns are slow
}

export interface HeatMap {
  from: number; // steps; column c covers [from + c*width, from + (c+1)*width)
  width: number;
  columns: number;
  rows: HeatRow[];
}

/// The lower median: the faster of two ranks, so that a single slow one stands out.
export function lowerMedian(values: readonly number[]): number | null {
  if (values.length === 0) return null;
  return values.toSorted((a, b) => a - b)[(values.length - 1) >> 1]!;
}

const mean = (values: readonly (number | null)[]): number | null => {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
};

/// A row of a sampled series covers the steps since the row before it.
function means(series: Series, from: number, width: number, columns: number): (number | null)[] {
  const sums = new Float64Array(columns);
  const counts = new Uint32Array(columns);
  const columnOf = (step: number): number => Math.min(columns - 1, Math.max(0, Math.floor((step - from) / width)));
  series.step.forEach((step, row) => {
    const value = series.avg[row];
    if (value === null || value === undefined) return;
    const first = series.sampled ? (series.step[row - 1] ?? from - 1) + 1 : step;
    for (let column = columnOf(first); column <= columnOf(step); column += 1) {
      sums[column]! += value;
      counts[column]! += 1;
    }
  });
  return [...sums].map((sum, column) => (counts[column]! > 0 ? sum / counts[column]! : null));
}

/// The values of each rank over steps, and their ratios to the median of all ranks at the same steps.
export function heatMap(
  ranks: readonly { rank: number; series: Series }[],
  range: readonly [number, number],
  most: number,
): HeatMap {
  const [from, to] = range;
  const columns = Math.max(
    1,
    Math.min(most, Math.floor(to - from) + 1, ...ranks.map(({ series }) => series.step.length || most)),
  );
  const width = Math.max(1, (to - from + 1) / columns);
  const values = ranks.map(({ series }) => means(series, from, width, columns));
  const medians = Array.from({ length: columns }, (_, column) =>
    lowerMedian(values.map((row) => row[column] ?? null).filter((value) => value !== null)),
  );
  const rows = ranks.map(({ rank }, at): HeatRow => {
    const ratios = values[at]!.map((value, column) =>
      value === null || !medians[column] ? null : value / medians[column]!,
    );
    const slow = ratios.map((ratio) => ratio !== null && ratio > STRAGGLES_ABOVE);
    const known = ratios.filter((ratio) => ratio !== null).length;
    const last = slow.lastIndexOf(true);
    const newest = slow.slice(-Math.ceil(columns / 10));
    return {
      rank,
      values: values[at]!,
      ratios,
      meanRatio: mean(ratios),
      straggling: known > 0 ? slow.filter(Boolean).length / known : 0,
      lastSlow: last < 0 ? null : Math.min(to, Math.ceil(from + (last + 1) * width) - 1),
      slowNow: newest.filter(Boolean).length > newest.length / 2,
    };
  });
  return { from, width, columns, rows };
}

/// The colour level: 0 … 4 for slower than the median, -1 and -2 for faster, null without a value.
export function heatLevel(ratio: number | null): number | null {
  if (ratio === null) return null;
  const bounds = [1.05, STRAGGLES_ABOVE, 1.3, 1.6];
  if (ratio < 0.8) return -2;
  if (ratio < 0.95) return -1;
  return bounds.filter((bound) => ratio > bound).length;
}
