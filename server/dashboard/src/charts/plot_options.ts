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
      return { ...base, stroke: `${stroke}59`, width: 1 };
    case 'low':
    case 'high':
      return { ...base, stroke: 'transparent', width: 0 };
    case 'area':
      return { ...base, stroke, width: 0.5, fill: stroke };
    case 'points':
      return { ...base, stroke, width: 1.5, points: { show: true, size: 6, fill: color('panel'), width: 1.5, stroke } };
  }
}
