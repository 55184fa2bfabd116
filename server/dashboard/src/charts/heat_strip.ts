import { h, replaceChildren, setText, swatch } from '../lib/dom';
import { formatCount, formatFixed, formatPercent } from '../lib/format';
import { meanOf, type Series } from '../lib/series';
import { color, onThemeChange } from './plot';

/// A rank is slow if it takes more than this factor of the median over all ranks.
export const STRAGGLES_ABOVE = 1.15;

export interface HeatRow {
  rank: number;
  values: (number | null)[]; // mean of the key in each column
  ratios: (number | null)[]; // to the median over ranks in that column
  meanRatio: number | null;
  straggling: number; // fraction of columns with a ratio above STRAGGLES_ABOVE
  lastSlow: number | null; // the step at which the last such column ends
  slowNow: boolean; // whether most of the newest tenth of the columns are slow
}

/// `from` and `width` in steps: column c covers [from + c*width, from + (c+1)*width).
export type HeatMap = { from: number; width: number; columns: number; rows: HeatRow[] };

/// The lower median: the faster of two ranks, so that a single slow one stands out.
export function lowerMedian(values: readonly number[]): number | null {
  if (values.length === 0) return null;
  return values.toSorted((a, b) => a - b)[(values.length - 1) >> 1]!;
}

/// A row of a sampled series covers the steps since the row before it.
function means(series: Series, from: number, width: number, columns: number): (number | null)[] {
  const sums = new Float64Array(columns);
  const counts = new Uint32Array(columns);
  const columnOf = (step: number): number => Math.min(columns - 1, Math.max(0, Math.floor((step - from) / width)));
  series.step.forEach((step, row) => {
    const value = series.avg[row];
    if (value === null || value === undefined) return;
    const first = series.sampled ? (series.step[row - 1] ?? from - 1) + 1 : step;
    for (let column = columnOf(first); column <= columnOf(step); column += 1) {
      sums[column]! += value;
      counts[column]! += 1;
    }
  });
  return [...sums].map((sum, column) => (counts[column]! > 0 ? sum / counts[column]! : null));
}

type RankSeries = { rank: number; series: Series };

/// The values of each rank over steps, and their ratios to the median of all ranks at the same steps.
export function heatMap(ranks: readonly RankSeries[], [from, to]: readonly [number, number], most: number): HeatMap {
  const lengths = ranks.map(({ series }) => series.step.length || most);
  const columns = Math.max(1, Math.min(most, Math.floor(to - from) + 1, ...lengths));
  const width = Math.max(1, (to - from + 1) / columns);
  const values = ranks.map(({ series }) => means(series, from, width, columns));
  const medians = Array.from({ length: columns }, (_, column) =>
    lowerMedian(values.map((row) => row[column] ?? null).filter((value) => value !== null)),
  );
  const rows = ranks.map(({ rank }, at): HeatRow => {
    const ratios = values[at]!.map((value, column) =>
      value === null || !medians[column] ? null : value / medians[column]!,
    );
    const slow = ratios.map((ratio) => ratio !== null && ratio > STRAGGLES_ABOVE);
    const known = ratios.filter((ratio) => ratio !== null).length;
    const last = slow.lastIndexOf(true);
    const newest = slow.slice(-Math.ceil(columns / 10));
    return {
      rank,
      values: values[at]!,
      ratios,
      meanRatio: meanOf(ratios),
      straggling: known > 0 ? slow.filter(Boolean).length / known : 0,
      lastSlow: last < 0 ? null : Math.min(to, Math.ceil(from + (last + 1) * width) - 1),
      slowNow: newest.filter(Boolean).length > newest.length / 2,
    };
  });
  return { from, width, columns, rows };
}

/// The colour level: 0 … 4 for slower than the median, -1 and -2 for faster, null without a value.
export function heatLevel(ratio: number | null): number | null {
  if (ratio === null) return null;
  const bounds = [1.05, STRAGGLES_ABOVE, 1.3, 1.6];
  if (ratio < 0.8) return -2;
  if (ratio < 0.95) return -1;
  return bounds.filter((bound) => ratio > bound).length;
}

const LABEL_PX = 92;
const MARK_PX = 58;
/// Colour names of the style sheet, from clearly faster than the median, level -2, to much slower.
const LEVELS = ['heat-fast-2', 'heat-fast-1', 'heat-0', 'heat-1', 'heat-2', 'heat-3', 'heat-4'];
const FIRST_LEVEL = -2;
const MEANINGS = ['', 'faster', 'equal', '> 1.05', '> 1.15', '> 1.3', '> 1.6 of the median'];
const MARKED = `▲ slower than the median by more than ${formatPercent(STRAGGLES_ABOVE - 1, 0)}: now, or a tenth of the time`;
type Cell = { row: number; column: number };

/// The words of a rank, "3 birch", and of a value.
export type HeatText = { name: (rank: number) => string; value: (value: number | null) => string };

/// A heat map of ranks over steps. A cell's colour compares the rank with the median of all ranks at the same steps. Ranks that are
/// often slower are marked. Arrow keys move from cell to cell.
export class HeatStrip {
  private readonly canvas = h('canvas');
  private readonly plot: HTMLElement;
  private readonly said = h('p.chart-note', { role: 'status' });
  private map: HeatMap | null = null;
  private text: HeatText = { name: String, value: String };
  private cell: Cell | null = null;
  private readonly resize = new ResizeObserver(() => this.draw());
  private readonly stopTheme = onThemeChange(() => this.draw());

  constructor(place: HTMLElement, label: string) {
    const listeners = {
      onkeydown: (event: KeyboardEvent) => this.key(event),
      onpointermove: (event: PointerEvent) => this.point(event),
      onpointerleave: () => this.choose(null),
    };
    const keys = { 'aria-keyshortcuts': 'ArrowLeft ArrowRight ArrowUp ArrowDown' };
    this.plot = h('div.heat', { tabindex: 0, role: 'img', 'aria-label': label, ...keys, ...listeners }, this.canvas);
    const items = MEANINGS.map((name, at) => name && h('span.legend-item', swatch(LEVELS[at]!), name));
    replaceChildren(place, h('div', this.plot, h('p.heat-legend.muted', items.slice(1), h('span', MARKED)), this.said));
    this.resize.observe(this.plot);
  }

  show(map: HeatMap, text: HeatText): void {
    this.map = map;
    this.text = text;
    this.draw();
    this.say();
  }

  close(): void {
    this.resize.disconnect();
    this.stopTheme();
  }

  draw(): void {
    const { map, canvas } = this;
    const width = this.plot.clientWidth;
    if (!map || width === 0) return;
    const height = Math.max(1, map.rows.length) * this.rowPx;
    const unit = devicePixelRatio;
    canvas.width = width * unit;
    canvas.height = height * unit;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const ctx = canvas.getContext('2d')!;
    ctx.scale(unit, unit);
    ctx.font = '11px system-ui, sans-serif';
    ctx.textBaseline = 'middle';
    const colors = LEVELS.map(color);
    map.rows.forEach((row, at) => {
      const top = at * this.rowPx;
      row.ratios.forEach((ratio, column) => {
        const level = heatLevel(ratio);
        if (level === null) return;
        ctx.fillStyle = colors[level - FIRST_LEVEL]!;
        const left = this.left(column, width);
        ctx.fillRect(left, top + 1, Math.max(1, this.left(column + 1, width) - left + 0.3), this.rowPx - 2);
      });
      ctx.fillStyle = color('text');
      ctx.fillText(this.text.name(row.rank), 0, top + this.rowPx / 2, LABEL_PX - 6);
      const marked = row.slowNow || row.straggling >= 0.1;
      ctx.fillStyle = color(marked ? 'bad' : 'muted');
      const ratio = row.meanRatio === null ? '' : `${formatFixed(row.meanRatio, 2)}×`;
      ctx.fillText(`${ratio}${marked ? ' ▲' : ''}`, width - MARK_PX + 6, top + this.rowPx / 2);
    });
    this.frame(ctx, width);
  }

  private get rowPx(): number {
    return (this.map?.rows.length ?? 1) > 24 ? 12 : 20;
  }

  private left(column: number, width: number): number {
    return LABEL_PX + ((width - LABEL_PX - MARK_PX) * column) / this.map!.columns;
  }

  private frame(ctx: CanvasRenderingContext2D, width: number): void {
    if (!this.cell) return;
    const left = this.left(this.cell.column, width);
    ctx.strokeStyle = color('text');
    ctx.lineWidth = 1.5;
    const right = this.left(this.cell.column + 1, width);
    ctx.strokeRect(left, this.cell.row * this.rowPx + 0.5, right - left, this.rowPx - 1);
  }

  private point(event: PointerEvent): void {
    const { map } = this;
    if (!map) return;
    const box = this.canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - LABEL_PX) / (box.width - LABEL_PX - MARK_PX);
    const row = Math.floor((event.clientY - box.top) / this.rowPx);
    const inside = share >= 0 && share < 1 && row >= 0 && row < map.rows.length;
    this.choose(inside ? { row, column: Math.floor(share * map.columns) } : null);
  }

  private key(event: KeyboardEvent): void {
    const { map } = this;
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!map || !move || map.rows.length === 0) return;
    event.preventDefault();
    const at = this.cell ?? { row: 0, column: map.columns };
    this.choose({
      row: Math.min(Math.max(at.row + move[0]!, 0), map.rows.length - 1),
      column: Math.min(Math.max(at.column + move[1]!, 0), map.columns - 1),
    });
  }

  private choose(cell: Cell | null): void {
    if (cell?.row === this.cell?.row && cell?.column === this.cell?.column) return;
    this.cell = cell;
    this.draw();
    this.say();
  }

  /// Describes the cell under the cursor, otherwise the stragglers.
  private say(): void {
    if (!this.map) return;
    const row = this.cell && this.map.rows[this.cell.row];
    setText(this.said, this.cell && row ? this.cellText(this.map, row, this.cell.column) : this.stragglers(this.map));
  }

  private cellText({ from, width }: HeatMap, row: HeatRow, column: number): string {
    const first = Math.ceil(from + column * width);
    const last = Math.max(first, Math.ceil(from + (column + 1) * width) - 1);
    const ratio = row.ratios[column] ?? null;
    const parts = [
      `rank ${this.text.name(row.rank)}`,
      `updates ${formatCount(first)} to ${formatCount(last)}`,
      this.text.value(row.values[column] ?? null),
      ratio === null ? '' : `${formatFixed(ratio, 2)}× the median`,
    ];
    return parts.filter(Boolean).join(' · ');
  }

  private stragglers({ rows }: HeatMap): string {
    if (rows.length < 2) return 'one rank: nothing to compare with';
    const textOf = ({ rank, straggling, slowNow, lastSlow }: HeatRow): string => {
      const share = `above ${STRAGGLES_ABOVE}× the median for ${formatPercent(straggling, 0)} of the time`;
      const when = slowNow ? '' : `, last at update ${formatCount(lastSlow)}`;
      return `rank ${this.text.name(rank)} ${slowNow ? 'straggles' : 'straggled'}: ${share}${when}`;
    };
    const slow = rows.filter(({ straggling }) => straggling > 0).sort((a, b) => b.straggling - a.straggling);
    return slow.slice(0, 3).map(textOf).join('; ') || 'no rank straggles';
  }
}
