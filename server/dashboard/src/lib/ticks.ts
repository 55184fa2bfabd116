import { formatCount } from './format';

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

const PREFIXES = ['', 'k', 'M', 'G', 'T', 'P'];

/// With a decimal prefix: "1.25 MB".
export const siTick =
  (unit = ''): Tick =>
  (value, step) => {
    const index =
      value === 0
        ? 0
        : Math.min(PREFIXES.length - 1, Math.max(0, Math.floor((Math.log10(Math.abs(value)) + 1e-9) / 3)));
    const scale = 1000 ** index;
    return `${(value / scale).toFixed(Math.min(4, decimalsOf(step / scale)))} ${PREFIXES[index]}${unit}`.trimEnd();
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

const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;

/// Round tick steps for an axis of seconds.
export const TIME_STEPS: readonly number[] = [
  0.001,
  0.002,
  0.005,
  0.01,
  0.02,
  0.05,
  0.1,
  0.2,
  0.5,
  1,
  2,
  5,
  10,
  15,
  30,
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((days) => days * DAY),
];

/// Ticks at multiples of `step` of local time, in seconds since 1970; `offset` is how far local time is ahead of UTC, in seconds.
export function clockTicks(from: number, to: number, step: number, offset: number): number[] {
  const ticks: number[] = [];
  for (let at = Math.ceil((from + offset) / step); at * step - offset <= to && ticks.length < 400; at += 1)
    ticks.push(at * step - offset);
  return ticks;
}
