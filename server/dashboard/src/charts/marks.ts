import type uPlot from 'uplot';
import type { Mark } from './chart_data';
import { color } from './theme';

const COLORS: Record<Mark['kind'], string> = { 'non-finite': 'bad', alert: 'warn', checkpoint: 'teal', attempt: 'gray' };
const NEAR_PX = 6;

/// Triangles at the top for what went wrong, small diamonds at the bottom for checkpoints, dashed lines for new attempts.
export function drawMarks(plot: uPlot, marks: readonly Mark[]): void {
  const { ctx, bbox } = plot;
  const unit = devicePixelRatio;
  ctx.save();
  for (const { x, kind } of marks) {
    const left = plot.valToPos(x, 'x', true);
    if (!(left >= bbox.left && left <= bbox.left + bbox.width)) continue;
    ctx.fillStyle = ctx.strokeStyle = color(COLORS[kind]);
    ctx.beginPath();
    if (kind === 'checkpoint') {
      const bottom = bbox.top + bbox.height;
      const size = 3.5 * unit;
      for (const [dx, dy] of [[0, -2], [1, -1], [0, 0], [-1, -1]] as const) ctx.lineTo(left + dx * size, bottom + dy * size);
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

/// The labels of the marks under the cursor.
export function marksNear(plot: uPlot, marks: readonly Mark[], left: number): string[] {
  return marks.filter(({ x }) => Math.abs(plot.valToPos(x, 'x') - left) <= NEAR_PX).map(({ label }) => label);
}
