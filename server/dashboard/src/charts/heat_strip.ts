import { h, setText } from '../lib/dom';
import { heatLevel, STRAGGLES_ABOVE, type HeatMap } from '../lib/heat';
import { formatCount, formatFixed, formatPercent } from '../lib/format';
import { color } from './theme';

export { heatMap } from '../lib/heat';

const LABEL_PX = 92;
const MARK_PX = 58;
/// Colour names of the style sheet, from clearly faster than the median to much slower.
const LEVELS: Record<number, string> = {
  '-2': 'heat-fast-2',
  '-1': 'heat-fast-1',
  0: 'heat-0',
  1: 'heat-1',
  2: 'heat-2',
  3: 'heat-3',
  4: 'heat-4',
};

export interface HeatText {
  name: (rank: number) => string; // "3 birch"
  value: (value: number | null) => string;
}

/// A heat map of ranks over steps. A cell's colour compares the rank with the median of all ranks at the same steps. Ranks that are
/// often slower are marked. Arrow keys move from cell to cell.
export class HeatStrip {
  readonly element: HTMLElement;
  private readonly canvas = h('canvas', {});
  private readonly plot: HTMLElement;
  private readonly said = h('p', { class: 'chart-note', role: 'status' });
  private map: HeatMap | null = null;
  private text: HeatText = { name: String, value: String };
  private cell: { row: number; column: number } | null = null;
  private readonly resize = new ResizeObserver(() => this.draw());

  constructor(label: string) {
    this.plot = h(
      'div',
      {
        class: 'heat',
        tabindex: 0,
        role: 'img',
        'aria-label': label,
        'aria-keyshortcuts': 'ArrowLeft ArrowRight ArrowUp ArrowDown',
        onkeydown: (event: KeyboardEvent) => this.key(event),
        onpointermove: (event: PointerEvent) => this.point(event),
        onpointerleave: () => this.choose(null),
      },
      this.canvas,
    );
    const legend = [
      [-1, 'faster'],
      [0, 'equal'],
      [1, '> 1.05'],
      [2, '> 1.15'],
      [3, '> 1.3'],
      [4, '> 1.6 of the median'],
    ] as const;
    this.element = h(
      'div',
      {},
      this.plot,
      h(
        'p',
        { class: 'heat-legend muted' },
        legend.map(([level, name]) =>
          h(
            'span',
            { class: 'legend-item' },
            h('span', { class: `swatch swatch-${LEVELS[level]}`, 'aria-hidden': 'true' }),
            name,
          ),
        ),
        h(
          'span',
          {},
          `▲ slower than the median by more than ${formatPercent(STRAGGLES_ABOVE - 1, 0)}: now, or a tenth of the time`,
        ),
      ),
      this.said,
    );
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
    const colors = new Map(Object.entries(LEVELS).map(([level, name]) => [Number(level), color(name)]));
    map.rows.forEach((row, at) => {
      const top = at * this.rowPx;
      row.ratios.forEach((ratio, column) => {
        const level = heatLevel(ratio);
        if (level === null) return;
        ctx.fillStyle = colors.get(level)!;
        const left = this.left(column, width);
        ctx.fillRect(left, top + 1, Math.max(1, this.left(column + 1, width) - left + 0.3), this.rowPx - 2);
      });
      ctx.fillStyle = color('text');
      ctx.fillText(this.text.name(row.rank), 0, top + this.rowPx / 2, LABEL_PX - 6);
      const marked = row.slowNow || row.straggling >= 0.1;
      ctx.fillStyle = color(marked ? 'bad' : 'muted');
      ctx.fillText(
        `${row.meanRatio === null ? '' : `${formatFixed(row.meanRatio, 2)}×`}${marked ? ' ▲' : ''}`,
        width - MARK_PX + 6,
        top + this.rowPx / 2,
      );
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
    ctx.strokeRect(
      left,
      this.cell.row * this.rowPx + 0.5,
      this.left(this.cell.column + 1, width) - left,
      this.rowPx - 1,
    );
  }

  private point(event: PointerEvent): void {
    const { map } = this;
    if (!map) return;
    const box = this.canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - LABEL_PX) / (box.width - LABEL_PX - MARK_PX);
    const row = Math.floor((event.clientY - box.top) / this.rowPx);
    this.choose(
      share >= 0 && share < 1 && row >= 0 && row < map.rows.length
        ? { row, column: Math.floor(share * map.columns) }
        : null,
    );
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

  private choose(cell: { row: number; column: number } | null): void {
    if (cell?.row === this.cell?.row && cell?.column === this.cell?.column) return;
    this.cell = cell;
    this.draw();
    this.say();
  }

  /// Describes the cell under the cursor, otherwise the stragglers.
  private say(): void {
    const { map, cell } = this;
    if (!map) return;
    const row = cell ? map.rows[cell.row] : undefined;
    if (cell && row) {
      const from = map.from + cell.column * map.width;
      const ratio = row.ratios[cell.column] ?? null;
      return setText(
        this.said,
        `rank ${this.text.name(row.rank)} · updates ${formatCount(Math.ceil(from))} to ${formatCount(
          Math.max(Math.ceil(from), Math.ceil(from + map.width) - 1),
        )} · ${this.text.value(row.values[cell.column] ?? null)}${ratio === null ? '' : ` · ${formatFixed(ratio, 2)}× the median`}`,
      );
    }
    const slow = map.rows
      .filter(({ straggling }) => straggling > 0)
      .sort((a, b) => b.straggling - a.straggling)
      .slice(0, 3);
    setText(
      this.said,
      map.rows.length < 2
        ? 'one rank: nothing to compare with'
        : slow.length === 0
          ? 'no rank straggles'
          : slow
              .map(
                ({ rank, straggling, slowNow, lastSlow }) =>
                  `rank ${this.text.name(rank)} ${slowNow ? 'straggles: ' : 'straggled: '}above ${
                    STRAGGLES_ABOVE
                  }× the median for ${formatPercent(straggling, 0)} of the time${slowNow ? '' : `, last at update ${formatCount(lastSlow)}`}`,
              )
              .join('; '),
    );
  }
}
