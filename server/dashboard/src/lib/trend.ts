/// The recent change: the mean of the newest tenth of the rows minus that of the tenth before it.
export interface Trend {
  change: number;
  rows: number; // of each half
  certain: boolean; // whether the change exceeds the scatter of the rows
}

const FEWEST_ROWS = 10;

function meanAndSpread(values: readonly number[]): [number, number] {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
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
