import type uPlot from 'uplot';
import type { Mark } from './chart_data';
import { color } from './theme';

const COLORS: Record<Mark['kind'], string> = {
  'non-finite': 'bad',
  alert: 'warn',
  checkpoint: 'teal',
  attempt: 'gray',
};
const NEAR_PX = 6;

/// Draws marks: triangles at the top for faults, diamonds at the bottom for checkpoints, dashed lines for new attempts.
export function drawMarks(plot: uPlot, marks: readonly Mark[]): void {
  const { ctx, bbox } = plot;
  const unit = devicePixelRatio;
  ctx.save();
  for (const { x, to, kind, label } of marks) {
    if (to !== undefined) {
      drawBand(plot, plot.valToPos(x, 'x', true), plot.valToPos(to, 'x', true), color(COLORS[kind]), label);
      continue;
    }
    const left = plot.valToPos(x, 'x', true);
    if (!(left >= bbox.left && left <= bbox.left + bbox.width)) continue;
    ctx.fillStyle = ctx.strokeStyle = color(COLORS[kind]);
    ctx.beginPath();
    if (kind === 'checkpoint') {
      const bottom = bbox.top + bbox.height;
      const size = 3.5 * unit;
      for (const [dx, dy] of [
        [0, -2],
        [1, -1],
        [0, 0],
        [-1, -1],
      ] as const)
        ctx.lineTo(left + dx * size, bottom + dy * size);
      ctx.fill();
      continue;
    }
    ctx.globalAlpha = 0.55;
    ctx.lineWidth = unit;
    ctx.setLineDash([3 * unit, 3 * unit]);
    ctx.moveTo(left, bbox.top);
    ctx.lineTo(left, bbox.top + bbox.height);
    ctx.stroke();
    ctx.globalAlpha = 1;
    if (kind === 'attempt') continue;
    const size = 5 * unit;
    ctx.beginPath();
    ctx.moveTo(left - size, bbox.top);
    ctx.lineTo(left + size, bbox.top);
    ctx.lineTo(left, bbox.top + 1.6 * size);
    ctx.fill();
  }
  ctx.restore();
}

const BAND_PX = 3; // min width

/// A shaded stretch of the plot with its label at the top, if there is space.
function drawBand({ ctx, bbox }: uPlot, from: number, to: number, tint: string, label: string): void {
  const unit = devicePixelRatio;
  const left = Math.max(from - unit, bbox.left);
  const width = Math.min(Math.max(to + unit, from + BAND_PX * unit), bbox.left + bbox.width) - left;
  if (width <= 0) return;
  ctx.fillStyle = tint;
  ctx.globalAlpha = 0.14;
  ctx.fillRect(left, bbox.top, width, bbox.height);
  ctx.globalAlpha = 1;
  ctx.fillRect(left, bbox.top, width, 2 * unit);
  ctx.font = `${11 * unit}px system-ui, sans-serif`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'top';
  const space = 4 * unit;
  const lines = label.split(', ');
  if (lines.every((line) => ctx.measureText(line).width + 2 * space <= width))
    lines.forEach((line, at) => ctx.fillText(line, left + space, bbox.top + (6 + 14 * at) * unit));
}

/// The labels of the marks under the cursor.
export function marksNear(plot: uPlot, marks: readonly Mark[], left: number): string[] {
  return marks
    .filter(({ x, to = x }) => left >= plot.valToPos(x, 'x') - NEAR_PX && left <= plot.valToPos(to, 'x') + NEAR_PX)
    .map(({ label }) => label);
}
