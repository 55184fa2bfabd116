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
