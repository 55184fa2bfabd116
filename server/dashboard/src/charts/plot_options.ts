import type uPlot from 'uplot';
import type { Line } from './chart_data';
import { color } from './theme';

const FONT = '11px system-ui, sans-serif';

export function axisOf(options: uPlot.Axis): uPlot.Axis {
  const grid = { stroke: color('grid'), width: 1 };
  return { stroke: color('muted'), font: FONT, grid, ticks: { ...grid, size: 4 }, ...options };
}

export function seriesOf(line: Line): uPlot.Series {
  const stroke = color(line.color);
  const base: uPlot.Series = { label: line.label, spanGaps: false, points: { show: false } };
  switch (line.kind) {
    case 'line':
      return { ...base, stroke, width: 1.75 };
    case 'faint':
      return { ...base, stroke: `${stroke}66`, width: 1 };
    case 'low':
    case 'high':
      return { ...base, stroke: `${stroke}73`, width: 0.75 };  // thin edges, so that a spike of one step stays visible
    case 'area':
      return { ...base, stroke, width: 0.5, fill: stroke };
    case 'points':
      return { ...base, stroke, width: 1.5, points: { show: true, size: 6, fill: color('panel'), width: 1.5, stroke } };
    case 'limit':
      return { ...base, stroke, width: 1, dash: [6, 4] };
  }
}

/// What the y axis covers: areas and whole amounts start at zero; on a logarithmic axis uPlot's own choice.
export function yScale(lines: readonly Line[], log: boolean): uPlot.Scale {
  if (log) return { distr: 3 };
  const areas = lines.some(({ kind }) => kind === 'area');
  return areas ? { range: (_plot, _min, max) => [0, max > 0 ? max * 1.06 : 1] as uPlot.Range.MinMax } : {};
}

/// The min/max band of each pair of edges.
export function bandsOf(lines: readonly Line[]): uPlot.Band[] {
  return lines.flatMap((line, at) => (line.kind === 'low'
    ? [{ series: [at + 2, at + 1] as [number, number], fill: `${color(line.color)}2e` }] : []));
}
