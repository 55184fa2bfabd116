import { formatClock, formatCount, formatDateTime, formatDuration, formatSi, SI_UNITS } from './format';
import type { Series, XMode } from './series';

/// The label of a tick on an axis with ticks `step` apart, with as few decimals as distinguish neighbours.
export type Tick = (value: number, step: number) => string;
const MAX_DECIMALS = 12;

/// The number of decimals of a multiple of `step`.
export function decimalsOf(step: number): number {
  if (!(step > 0)) return 0;
  for (let digits = 0; digits < MAX_DECIMALS; digits += 1) {
    const scaled = step * 10 ** digits;
    if (Math.abs(scaled - Math.round(scaled)) < 1e-6 * scaled) return digits;
  }
  return MAX_DECIMALS;
}

/// 12,000, 0.25, 4e-5.
export const plainTick: Tick = (value, step) => {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e9 || (size < 1e-3 && step < 1e-3))
    return value.toExponential(Math.min(4, decimalsOf(step / 10 ** Math.floor(Math.log10(size) + 1e-9))));
  const [whole = '', rest] = value.toFixed(decimalsOf(step)).split('.');
  return `${whole.startsWith('-') ? '−' : ''}${formatCount(Math.abs(Number(whole)))}${rest ? `.${rest}` : ''}`;
};

/// With a decimal prefix: "1.25 MB".
export const siTick =
  (unit = ''): Tick =>
  (value, step) => {
    const power = value === 0 ? 0 : Math.floor((Math.log10(Math.abs(value)) + 1e-9) / 3);
    const index = Math.min(SI_UNITS.length - 1, Math.max(0, power));
    const scale = 1000 ** index;
    return `${(value / scale).toFixed(Math.min(4, decimalsOf(step / scale)))} ${SI_UNITS[index]}${unit}`.trimEnd();
  };

export const percentTick: Tick = (value, step) => `${(value * 100).toFixed(decimalsOf(step * 100))} %`;

export const msTick: Tick = (value, step) =>
  Math.abs(value) >= 1000
    ? `${(value / 1000).toFixed(decimalsOf(step / 1000))} s`
    : `${value.toFixed(decimalsOf(step))} ms`;

/// The tick format for the metric's axis.
export function tickOf(key: string): Tick {
  if (key === 'eval:accuracy' || key.endsWith('_fraction')) return percentTick;
  if (key.endsWith('_ms')) return msTick;
  if (key.includes('bytes')) return siTick(key.endsWith('bytes_per_second') ? 'B/s' : 'B');
  return key.endsWith('_per_second') || key.endsWith('tokens') || key === 'flops' ? siTick() : plainTick;
}

/// The tick step at a value on a logarithmic axis.
export const logStep = (tick: number): number => 10 ** Math.floor(Math.log10(Math.abs(tick)) + 1e-9);
const BELOW_MINUTE = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30];
const DAYS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];

/// Round tick steps for an axis of seconds.
export const TIME_STEPS: readonly number[] = [
  ...BELOW_MINUTE,
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * 60),
  ...[1, 2, 3, 6, 12].map((hours) => hours * 3600),
  ...DAYS.map((days) => days * 86_400),
];

/// Ticks at multiples of `step` of local time, in seconds since 1970; `offset` is how far local time is ahead of UTC, in seconds.
export function clockTicks(from: number, to: number, step: number, offset: number): number[] {
  const ticks: number[] = [];
  for (let at = Math.ceil((from + offset) / step); at * step - offset <= to && ticks.length < 400; at += 1)
    ticks.push(at * step - offset);
  return ticks;
}

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

/// The meaning of the horizontal axis of all charts; `startMs`: the run's start.
export type XAxis = { mode: XMode; startMs: number; clock: TokenClock };

/// Updates, seconds since the start, seconds since 1970, or target tokens.
export function xValue({ mode, startMs, clock }: XAxis, step: number, timeMs: number): number {
  if (mode === 'update') return step;
  if (mode === 'tokens') return clock.at(step);
  return (mode === 'elapsed' ? timeMs - startMs : timeMs) / 1000;
}

export const xColumn = (axis: XAxis, series: Pick<Series, 'step' | 'timeMs'>): number[] =>
  series.step.map((step, row) => xValue(axis, step, series.timeMs[row] ?? 0));

/// The x of a step about which only the number is known, from the rows of a series; null outside them.
export function xOfStep(axis: XAxis, series: Pick<Series, 'step' | 'timeMs'>, step: number): number | null {
  const { step: steps, timeMs } = series;
  if (steps.length === 0 || step > steps.at(-1)!) return null;
  return xValue(axis, step, step <= steps[0]! ? timeMs[0]! : interpolate(steps, timeMs, step));
}

export type ServerRange = { x: 'step' | 'wall'; from: number; to: number };

/// The range to request from the server in order to fill `range`.
export function rangeOnServer(axis: XAxis, [from, to]: readonly [number, number]): ServerRange {
  if (axis.mode === 'update') return { x: 'step', from: Math.max(0, Math.floor(from)), to: Math.ceil(to) };
  if (axis.mode === 'tokens') {
    return { x: 'step', from: Math.floor(axis.clock.stepAt(from)), to: Math.ceil(axis.clock.stepAt(to)) };
  }
  const origin = axis.mode === 'elapsed' ? axis.startMs : 0;
  return { x: 'wall', from: Math.floor(from * 1000 + origin), to: Math.ceil(to * 1000 + origin) };
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

const TICKS: Record<XMode, Tick> = {
  update: (value) => (Number.isInteger(value) ? formatCount(value) : ''),
  elapsed: elapsedTick,
  wall: (value, step) => clockTick(value * 1000, step),
  tokens: (value) => formatSi(value),
};

/// The label of a tick where ticks are `step` apart; a duration or a clock time says no smaller unit than that.
export const xTick = (mode: XMode, value: number, step = 1): string => TICKS[mode](value, step);

const TEXTS: Record<XMode, (value: number) => string> = {
  update: (value) => `update ${formatCount(value)}`,
  elapsed: (value) => `${formatDuration(value)} after the start`,
  wall: (value) => formatDateTime(value * 1000),
  tokens: (value) => `${formatSi(value)} target tokens`,
};

/// In words, for the cursor and for screen readers.
export const xText = (mode: XMode, value: number): string => TEXTS[mode](value);

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
