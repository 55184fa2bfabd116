import { saveBlob } from '../lib/dom';
import { color } from './plot';

export type PictureLegend = { label: string; value: string; color: string };
const MARGIN = 12;

/// The plot with its title, legend and note as a PNG, in the colours of the page.
export async function savePicture(
  plot: HTMLCanvasElement,
  title: string,
  legend: readonly PictureLegend[],
  note: string,
  name: string,
): Promise<void> {
  const unit = devicePixelRatio;
  const canvas = document.createElement('canvas');
  const lineHeight = 18;
  const lines = wrapLegend(legend, plot.width / unit);
  const head = MARGIN + 22 + lines.length * lineHeight;
  canvas.width = plot.width + 2 * MARGIN * unit;
  canvas.height = plot.height + (head + lineHeight + 2 * MARGIN) * unit;
  const ctx = canvas.getContext('2d')!;
  ctx.fillStyle = color('panel');
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.scale(unit, unit);
  ctx.fillStyle = color('text');
  ctx.font = '600 14px system-ui, sans-serif';
  ctx.fillText(title, MARGIN, MARGIN + 12);
  ctx.font = '12px system-ui, sans-serif';
  lines.forEach((line, row) => drawLegend(ctx, line, MARGIN + 34 + row * lineHeight));
  ctx.drawImage(plot, MARGIN, head + 6, plot.width / unit, plot.height / unit);
  ctx.fillStyle = color('muted');
  ctx.fillText(note, MARGIN, head + plot.height / unit + lineHeight + 4);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, 'image/png'));
  if (blob) saveBlob(blob, name);
}

const widthOf = ({ label, value }: PictureLegend): number => 30 + 7 * (label.length + value.length);

function wrapLegend(legend: readonly PictureLegend[], width: number): PictureLegend[][] {
  const lines: PictureLegend[][] = [[]];
  const used = (line: readonly PictureLegend[]): number => line.reduce((sum, entry) => sum + widthOf(entry), 0);
  for (const entry of legend) {
    const line = lines.at(-1)!;
    if (line.length > 0 && used(line) + widthOf(entry) > width) lines.push([entry]);
    else line.push(entry);
  }
  return lines;
}

function drawLegend(ctx: CanvasRenderingContext2D, entries: readonly PictureLegend[], top: number): void {
  let left = MARGIN;
  for (const entry of entries) {
    ctx.fillStyle = color(entry.color);
    ctx.fillRect(left, top - 9, 10, 10);
    ctx.fillStyle = color('text');
    ctx.fillText(`${entry.label} ${entry.value}`, left + 15, top);
    left += widthOf(entry);
  }
}
