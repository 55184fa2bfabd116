import { formatClock, formatCount, formatDateTime, formatDuration, formatSi } from './format';
import type { Series, XMode } from './series';
import { decimalsOf } from './ticks';

/// How many target tokens the run had seen at a step, from the (down-sampled) `update_target_tokens` of the whole run:
/// linear between its rows, and beyond them with the rate of the last row.
export class TokenClock {
  private readonly steps: number[] = [0];
  private readonly tokens: number[] = [0];

  constructor(series: Pick<Series, 'step' | 'avg'>) {
    series.step.forEach((step, row) => {
      const before = this.steps.at(-1)!;
      if (step <= before) return;
      this.tokens.push(this.tokens.at(-1)! + (step - before) * (series.avg[row] ?? 0));
      this.steps.push(step);
    });
  }

  get lastStep(): number {
    return this.steps.at(-1)!;
  }

  at(step: number): number {
    return interpolate(this.steps, this.tokens, step);
  }

  stepAt(tokens: number): number {
    return interpolate(this.tokens, this.steps, tokens);
  }
}

/// y at x on the line through the points (xs ascending), continued with the slope of the last piece; 0 before the first.
export function interpolate(xs: readonly number[], ys: readonly number[], x: number): number {
  if (xs.length < 2 || x <= xs[0]!) return ys[0] ?? 0;
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle]! <= x) low = middle;
    else high = middle;
  }
  const width = xs[high]! - xs[low]!;
  return width > 0 ? ys[low]! + ((ys[high]! - ys[low]!) * (x - xs[low]!)) / width : ys[high]!;
}

/// The meaning of the horizontal axis of all charts.
export interface XAxis {
  mode: XMode;
  startMs: number; // the run's start
  clock: TokenClock;
}

/// Updates, seconds since the start, seconds since 1970, or target tokens.
export function xValue(axis: XAxis, step: number, timeMs: number): number {
  switch (axis.mode) {
    case 'update':
      return step;
    case 'elapsed':
      return (timeMs - axis.startMs) / 1000;
    case 'wall':
      return timeMs / 1000;
    case 'tokens':
      return axis.clock.at(step);
  }
}

export function xColumn(axis: XAxis, series: Pick<Series, 'step' | 'timeMs'>): number[] {
  return series.step.map((step, row) => xValue(axis, step, series.timeMs[row] ?? 0));
}

/// The x of a step about which only the number is known, from the rows of a series; null outside them.
export function xOfStep(axis: XAxis, series: Pick<Series, 'step' | 'timeMs'>, step: number): number | null {
  const { step: steps, timeMs } = series;
  if (steps.length === 0 || step > steps.at(-1)!) return null;
  return xValue(axis, step, step <= steps[0]! ? timeMs[0]! : interpolate(steps, timeMs, step));
}

/// The range to request from the server in order to fill `range`.
export function rangeOnServer(
  axis: XAxis,
  range: readonly [number, number],
): { x: 'step' | 'wall'; from: number; to: number } {
  const [from, to] = range;
  if (axis.mode === 'update') return { x: 'step', from: Math.max(0, Math.floor(from)), to: Math.ceil(to) };
  if (axis.mode === 'tokens') {
    return { x: 'step', from: Math.floor(axis.clock.stepAt(from)), to: Math.ceil(axis.clock.stepAt(to)) };
  }
  const origin = axis.mode === 'elapsed' ? axis.startMs : 0;
  return { x: 'wall', from: Math.floor(from * 1000 + origin), to: Math.ceil(to * 1000 + origin) };
}

/// The label of a tick where ticks are `step` apart; a duration or a clock time says no smaller unit than that.
export function xTick(mode: XMode, value: number, step = 1): string {
  switch (mode) {
    case 'update':
      return Number.isInteger(value) ? formatCount(value) : '';
    case 'elapsed':
      return elapsedTick(value, step);
    case 'wall':
      return clockTick(value * 1000, step);
    case 'tokens':
      return formatSi(value);
  }
}

function elapsedTick(value: number, step: number): string {
  if (value === 0) return '0';
  return step < 1 ? `${value.toFixed(decimalsOf(step))} s` : formatDuration(value).replace(/ 0+ (s|min|h)$/, '');
}

function clockTick(timeMs: number, step: number): string {
  const [day = '', time = ''] = formatDateTime(timeMs).split(' ');
  if (step >= 3600 && time === '00:00') return day.slice(5);
  return step >= 60 ? time : formatClock(timeMs);
}

/// In words, for the cursor and for screen readers.
export function xText(mode: XMode, value: number): string {
  switch (mode) {
    case 'update':
      return `update ${formatCount(value)}`;
    case 'elapsed':
      return `${formatDuration(value)} after the start`;
    case 'wall':
      return formatDateTime(value * 1000);
    case 'tokens':
      return `${formatSi(value)} target tokens`;
  }
}

export const X_UNITS: Record<XMode, string> = {
  update: 'updates',
  elapsed: 'time since the start',
  wall: 'local time',
  tokens: 'target tokens seen',
};

/// The x of a moment; null outside the rows of the series.
export function xOfTime(axis: XAxis, series: Pick<Series, 'step' | 'timeMs'>, timeMs: number): number | null {
  const { step, timeMs: times } = series;
  if (times.length === 0 || timeMs > times.at(-1)! || timeMs < times[0]!) return null;
  return xValue(axis, Math.round(interpolate(times, step, timeMs)), timeMs);
}
