export type Column = (number | null)[];

/// One metric key over updates, as columns. In a sampled series, a row has min, average and max of several updates.
export interface Series {
  step: number[];
  timeMs: number[];
  min: Column;
  avg: Column;
  max: Column;
  total: number; // updates in the range before sampling
  sampled: boolean;
  nonFinite: { step: number; kind: string }[];
}

/// The mean of the known values; null if there are none.
export function meanOf(values: Column): number | null {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

export type XMode = 'update' | 'elapsed' | 'wall' | 'tokens';

export function emptySeries(): Series {
  return { step: [], timeMs: [], min: [], avg: [], max: [], total: 0, sampled: false, nonFinite: [] };
}

/// Appends `newer` to `series`. Drops rows that `series` already covers, so appending the same rows twice changes nothing.
export function appendTail(series: Series, newer: Series): Series {
  const last = series.step.at(-1) ?? -Infinity;
  const first = newer.step.findIndex((step) => step > last);
  if (first < 0) return series;
  return {
    step: series.step.concat(newer.step.slice(first)),
    timeMs: series.timeMs.concat(newer.timeMs.slice(first)),
    min: series.min.concat(newer.min.slice(first)),
    avg: series.avg.concat(newer.avg.slice(first)),
    max: series.max.concat(newer.max.slice(first)),
    total: series.total + newer.total - first,
    sampled: series.sampled || newer.sampled,
    nonFinite: series.nonFinite.concat(newer.nonFinite.filter(({ step }) => step > last)),
  };
}

/// The first step for which one of these series may have newer rows. Empty series do not count.
export function nextStep(list: Iterable<Series>): number {
  let next = Infinity;
  for (const { step } of list) if (step.length > 0) next = Math.min(next, step.at(-1)! + 1);
  return Number.isFinite(next) ? next : 0;
}

/// The averages of several series at the steps of the first; null if a series lacks the step.
export function alignOnFirst(list: readonly Series[]): Column[] {
  const steps = list[0]?.step ?? [];
  return list.map((series) => {
    const byStep = new Map(series.step.map((step, row) => [step, series.avg[row] ?? null]));
    return steps.map((step) => byStep.get(step) ?? null);
  });
}

/// Running sums over columns; null if any summand is missing.
export function stack(columns: readonly Column[]): Column[] {
  const sums: Column[] = [];
  for (const column of columns) {
    const below = sums.at(-1);
    sums.push(
      column.map((value, row) => {
        const base = below ? (below[row] ?? null) : 0;
        return value === null || base === null ? null : base + value;
      }),
    );
  }
  return sums;
}

/// "1,200 of 100,000, min/avg/max" for a sampled series, otherwise "all 812 points".
export function describeSampling(series: Series, count: (value: number) => string): string {
  if (series.sampled) return `${count(series.step.length)} of ${count(series.total)}, min/avg/max`;
  return series.total === 1 ? '1 point' : `all ${count(series.total)} points`;
}

/// Exponential moving average with bias correction, so that the first values are not pulled towards zero:
/// m = s*m + (1-s)*y, shown as m / (1 - s^n). `smoothing` in [0, 1): 0 leaves the values as they are.
/// Missing values stay missing and do not move the average.
export function ema(values: readonly (number | null)[], smoothing: number): (number | null)[] {
  if (smoothing <= 0) return values.slice();
  let mean = 0;
  let correction = 1;
  return values.map((value) => {
    if (value === null) return null;
    mean = smoothing * mean + (1 - smoothing) * value;
    correction *= smoothing;
    return mean / (1 - correction);
  });
}

/// The recent change: the mean of the newest tenth of the rows minus that of the tenth before it. `rows`: of each half; `certain`:
/// whether the change exceeds the scatter of the rows.
export type Trend = { change: number; rows: number; certain: boolean };

const FEWEST_ROWS = 10;

function meanAndSpread(values: number[]): [number, number] {
  const mean = meanOf(values)!;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return [mean, Math.sqrt(squares / values.length)];
}

export function trendOf(column: readonly (number | null)[]): Trend | null {
  const values = column.filter((value) => value !== null);
  const rows = Math.max(FEWEST_ROWS, Math.floor(values.length / 10));
  if (values.length < 2 * rows) return null;
  const [late, lateSpread] = meanAndSpread(values.slice(-rows));
  const [early, earlySpread] = meanAndSpread(values.slice(-2 * rows, -rows));
  const error = Math.hypot(lateSpread, earlySpread) / Math.sqrt(rows);
  return { change: late - early, rows, certain: Math.abs(late - early) > 2 * error };
}
