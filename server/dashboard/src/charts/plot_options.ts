import type uPlot from 'uplot';
import type { XMode } from '../lib/series';
import { clockTicks, logStep, TIME_STEPS, type Tick } from '../lib/ticks';
import { xTick } from '../lib/x_axis';
import { isolatedRows, type Line } from './chart_data';
import { color } from './theme';

const FONT = '11px system-ui, sans-serif';

export function axisOf(options: uPlot.Axis): uPlot.Axis {
  const grid = { stroke: color('grid'), width: 1 };
  return { stroke: color('muted'), font: FONT, grid, ticks: { ...grid, size: 4 }, ...options };
}

/// Draws points for isolated values between gaps.
const alone = (stroke: string): uPlot.Series.Points => ({
  show: true,
  size: 5,
  width: 0,
  fill: stroke,
  stroke,
  filter: (plot, series) => isolatedRows(plot.data[series] ?? []),
});

export function seriesOf(line: Line): uPlot.Series {
  const stroke = color(line.color);
  const base: uPlot.Series = { label: line.label, spanGaps: false, points: { show: false } };
  switch (line.kind) {
    case 'line':
      return { ...base, stroke, width: 1.75, points: alone(stroke) };
    case 'faint':
      return { ...base, stroke: `${stroke}52`, width: 1 };
    case 'low':
    case 'high':
      return { ...base, stroke: `${stroke}73`, width: 0.75 }; // thin edges, so that a spike of one step stays visible
    case 'area':
      return { ...base, stroke, width: 0.5, fill: stroke, points: alone(stroke) };
    case 'points':
      return { ...base, stroke, width: 1.5, points: { show: true, size: 6, fill: color('panel'), width: 1.5, stroke } };
    case 'limit':
      return { ...base, stroke, width: 1, dash: [6, 4] };
  }
}

/// Ticks of a logarithmic axis at 1, 2, … 9 times each power of ten.
export function logTicks(from: number, to: number): number[] {
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(from)); ticks.length < 400; power += 1) {
    for (let digit = 1; digit <= 9; digit += 1) {
      const tick = Number(`${digit}e${power}`);
      if (tick > to) return ticks;
      if (tick >= from) ticks.push(tick);
    }
  }
  return ticks;
}

/// The ticks with labels: powers of ten over many decades, 1, 2 and 5 over fewer, otherwise all.
export function logLabels(ticks: readonly (number | null)[]): (number | null)[] {
  const known = ticks.filter((tick) => tick !== null);
  const decades = known.length > 1 ? Math.log10(known.at(-1)! / known[0]!) : 0;
  const digits = decades > 2.5 ? [1] : decades > 0.9 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
  return ticks.map((tick) => (tick !== null && digits.includes(Number(tick.toExponential()[0])) ? tick : null));
}

export function logAxis(log: boolean): uPlot.Axis {
  return log
    ? { splits: (_plot, _axis, from, to) => logTicks(from, to), filter: (_plot, ticks) => logLabels(ticks) }
    : {};
}

const labels = (log: boolean, write: Tick): uPlot.Axis => ({
  values: (_plot, ticks, _axis, _space, step) =>
    ticks.map((tick) => (tick === null ? '' : write(tick, log ? logStep(tick) : step))),
});

/// The y axis.
export const yAxis = (log: boolean, write: Tick): uPlot.Axis =>
  axisOf({ ...logAxis(log), ...labels(log, write), size: 60, space: 34 });

/// The x axis. Times have ticks at round seconds, minutes, hours and days.
export function xAxisOf(mode: XMode, log: boolean): uPlot.Axis {
  const times: uPlot.Axis = mode !== 'elapsed' && mode !== 'wall' ? {} : { incrs: [...TIME_STEPS] };
  if (mode === 'wall')
    times.splits = (_plot, _axis, from, to, step) =>
      clockTicks(from, to, step, -60 * new Date(from * 1000).getTimezoneOffset());
  return axisOf({
    ...times,
    ...logAxis(log),
    ...labels(log, (value, step) => xTick(mode, value, step)),
    size: 30,
    space: 64,
  });
}

const LOG_MARGIN = 1.12;

/// The range of the y axis. With areas it starts at zero.
export function yScale(lines: readonly Line[], log: boolean): uPlot.Scale {
  if (log) return { distr: 3, range: (_plot, min, max) => (min > 0 ? [min / LOG_MARGIN, max * LOG_MARGIN] : [0.1, 1]) };
  const areas = lines.some(({ kind }) => kind === 'area');
  return areas ? { range: (_plot, _min, max) => [0, max > 0 ? max * 1.06 : 1] as uPlot.Range.MinMax } : {};
}

/// The min/max band of each pair of edges.
export function bandsOf(lines: readonly Line[]): uPlot.Band[] {
  return lines.flatMap((line, at) =>
    line.kind === 'low' ? [{ series: [at + 2, at + 1] as [number, number], fill: `${color(line.color)}2e` }] : [],
  );
}
