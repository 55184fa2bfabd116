import uPlot from 'uplot';
import { h, replaceChildren, setText } from '../lib/dom';
import type { XMode } from '../lib/series';
import type { Tick } from '../lib/ticks';
import { xText, xTick } from '../lib/x_axis';
import { readLine, spread, zoomed, type ChartData, type Line } from './chart_data';
import { Legend } from './legend';
import { drawMarks, marksNear } from './marks';
import { bandsOf, seriesOf, xAxisOf, yAxis, yScale } from './plot_options';
import { color } from './theme';

export interface ChartOptions {
  id: string;
  title: string;
  unit: string;
  axisFormat: Tick;
  fileName: () => string; // prefix of saved files' names
  csv: (() => Promise<void>) | null; // saves the chart's unsampled data; null: no CSV
  onZoom: (range: [number, number] | null) => void;
  onLog: ((log: boolean) => void) | null; // null: a logarithmic axis makes no sense
}

export interface ChartView {
  x: XMode;
  range: [number, number]; // shown x range
  full: [number, number]; // x range of all data
  log: boolean;
  logX: boolean;
  waiting: boolean; // its data is still being loaded
}

const SYNC_KEY = 'babelring';
const HEIGHT = 210;
const RIGHT_PX = 24; // half of a long label under the last tick
const FAR = 1 / 500; // fraction of the shown range; a value farther from the cursor is labelled with its place
const TABLE_AFTER_MS = 1500; // min time between updates of the hidden table
const EMPTY: ChartData = { lines: [], note: '', marks: [] };

/// A chart: title, legend with the values under the cursor, plot. All charts of a page share the x axis and the cursor. A drag
/// zooms all of them, a double click resets the zoom, arrow keys move the cursor. Before `mount` and after `unmount` it is an
/// empty frame of the same size.
export class Chart {
  readonly element: HTMLElement;
  mounted = false;
  private plot: uPlot | null = null;
  private shape = '';
  private data = EMPTY;
  private view: ChartView = { x: 'update', range: [0, 1], full: [0, 1], log: false, logX: false, waiting: true };
  private tableTimer: ReturnType<typeof setTimeout> | null = null;
  private readonly legend = new Legend();
  private readonly body: HTMLElement;
  private readonly note: HTMLElement;
  private readonly near = h('span', { class: 'chart-marks' });
  private readonly spoken = h('p', { class: 'visually-hidden', 'aria-live': 'polite' });
  private readonly table = h('div', { class: 'visually-hidden' });
  private readonly logButton: HTMLButtonElement;
  private readonly resize: ResizeObserver;

  constructor(private readonly options: ChartOptions) {
    const titleId = `chart-${options.id}`;
    const tool = (label: string, text: string, work: () => void): HTMLButtonElement =>
      h(
        'button',
        { class: 'chip', type: 'button', title: label, 'aria-label': `${options.title}: ${label}`, onclick: work },
        text,
      );
    this.note = h('p', { class: 'chart-note', id: `${titleId}-note` });
    this.logButton = tool('log y axis', 'log', () => options.onLog?.(!this.view.log));
    this.body = h('div', {
      class: 'plot',
      tabindex: 0,
      role: 'img',
      'aria-labelledby': titleId,
      'aria-describedby': `${titleId}-note`,
      'aria-keyshortcuts': 'ArrowLeft ArrowRight Home End + - Escape',
      onkeydown: (event: KeyboardEvent) => this.key(event),
    });
    this.element = h(
      'figure',
      { class: 'card chart', 'data-chart': options.id },
      h(
        'figcaption',
        {},
        h(
          'h3',
          { id: titleId },
          options.title,
          options.unit ? [' ', h('span', { class: 'unit' }, options.unit)] : null,
        ),
        h(
          'span',
          { class: 'chart-tools' },
          options.onLog && this.logButton,
          options.csv ? tool('every value as CSV', 'CSV', () => void this.saveCsv()) : null,
          tool('picture as PNG', 'PNG', () => void this.savePng()),
        ),
      ),
      this.legend.element,
      this.body,
      h('div', { class: 'chart-foot' }, this.note, this.near),
      this.spoken,
      this.table,
    );
    this.resize = new ResizeObserver(() => this.fit());
  }

  mount(): void {
    this.mounted = true;
    this.resize.observe(this.body);
  }

  unmount(): void {
    this.mounted = false;
    this.resize.disconnect();
    this.plot?.destroy();
    this.plot = null;
    if (this.tableTimer !== null) clearTimeout(this.tableTimer);
    this.tableTimer = null;
    this.table.replaceChildren();
  }

  /// Draws, if mounted.
  update(data: ChartData, view: ChartView): void {
    if (!this.mounted) return;
    const shape = JSON.stringify([view.x, view.log, view.logX, data.lines.map(({ label, kind }) => [label, kind])]);
    this.data = data;
    this.view = view;
    this.logButton.setAttribute('aria-pressed', String(view.log));
    setText(
      this.note,
      data.lines.some(({ x }) => x.length > 0) ? data.note : view.waiting ? 'loading …' : 'no data yet',
    );
    if (shape !== this.shape || !this.plot) this.rebuild(shape);
    else this.plot.setData(this.columns());
    this.readOut();
    this.tableTimer ??= setTimeout(() => this.drawTable(), TABLE_AFTER_MS);
  }

  /// Redraws after a change of theme: colours are part of the plot.
  redraw(): void {
    if (!this.mounted) return;
    this.rebuild(this.shape);
    this.readOut();
  }

  destroy(): void {
    this.unmount();
    this.element.remove();
  }

  private rebuild(shape: string): void {
    this.plot?.destroy();
    this.shape = shape;
    this.legend.show(this.data);
    this.plot = new uPlot(this.plotOptions(), this.columns(), this.body);
  }

  /// Joins lines with different x arrays on the union of all x.
  private columns(): uPlot.AlignedData {
    const { lines } = this.data;
    if (lines.length === 0) return [[]];
    const shown = lines.map(({ y }) =>
      this.view.log ? y.map((value) => (value !== null && value > 0 ? value : null)) : y,
    );
    if (lines.every(({ x }) => x === lines[0]!.x)) return [lines[0]!.x, ...shown];
    const tables = lines.map((line, index): uPlot.AlignedData => [line.x, shown[index]!]);
    return uPlot.join(
      tables,
      lines.map(() => [0, 2]),
    );
  }

  private plotOptions(): uPlot.Options {
    const { lines } = this.data;
    return {
      width: Math.max(this.body.clientWidth, 240),
      height: HEIGHT,
      legend: { show: false },
      scales: {
        x: { time: false, distr: this.view.logX ? 3 : 1, range: () => this.view.range },
        y: yScale(lines, this.view.log),
      },
      padding: [null, RIGHT_PX, null, null],
      axes: [xAxisOf(this.view.x, this.view.logX), yAxis(this.view.log, this.options.axisFormat)],
      series: [{}, ...lines.map(seriesOf)],
      bands: bandsOf(lines),
      cursor: {
        drag: { x: true, y: false, setScale: false, uni: 12 },
        points: {
          size: 7,
          width: 1,
          stroke: () => color('panel'),
          fill: (_plot, series) => color(this.data.lines[series - 1]?.color ?? 'text'),
        },
        sync: {
          key: SYNC_KEY,
          scales: ['x', null],
          filters: { pub: (type) => type === 'mousemove' || type === 'mouseleave' },
        },
        bind: {
          dblclick: () => () => {
            this.options.onZoom(null);
            return null;
          },
        },
      },
      hooks: {
        setSelect: [(plot) => this.select(plot)],
        setCursor: [() => this.readOut()],
        draw: [(plot) => drawMarks(plot, this.data.marks)],
      },
    };
  }

  private select(plot: uPlot): void {
    if (plot.select.width < 4) return;
    const from = plot.posToVal(plot.select.left, 'x');
    const to = plot.posToVal(plot.select.left + plot.select.width, 'x');
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.options.onZoom([from, to]);
  }

  private readOut(): void {
    const plot = this.plot;
    if (!plot) return;
    const { idx, left } = plot.cursor;
    const x = plot.data[0][idx ?? plot.data[0].length - 1] ?? 0;
    this.legend.read(this.data, plot.data[0], plot.data.slice(1) as (number | null)[][], x, this.far, (at) =>
      this.place(at),
    );
    setText(
      this.near,
      idx === null || idx === undefined || left === undefined || left < 0
        ? ''
        : [xText(this.view.x, plot.data[0][idx] ?? 0), ...marksNear(plot, this.data.marks, left).slice(0, 3)].join(
            ' · ',
          ),
    );
  }

  private get far(): number {
    return (this.view.range[1] - this.view.range[0]) * FAR;
  }

  private place(x: number): string {
    return xTick(this.view.x, this.view.x === 'update' ? Math.round(x) : x);
  }

  private key(event: KeyboardEvent): void {
    const plot = this.plot;
    if (!plot || plot.data[0].length === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const [first, last] = this.rowsShown(plot.data[0]);
    const stride = event.shiftKey ? Math.max(1, Math.round((last - first) / 20)) : 1;
    const at = Math.min(Math.max(plot.cursor.idx ?? last, first), last);
    if (event.key === 'Escape') return this.options.onZoom(null);
    if (['+', '=', '-'].includes(event.key)) {
      event.preventDefault();
      return this.options.onZoom(
        zoomed(this.view.range, plot.data[0][at]!, event.key === '-' ? 2 : 0.5, this.view.full),
      );
    }
    const target = { ArrowLeft: at - stride, ArrowRight: at + stride, Home: first, End: last }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    const x = plot.data[0][Math.min(Math.max(target, first), last)]!;
    plot.setCursor({ left: plot.valToPos(x, 'x'), top: plot.over.clientHeight / 2 });
    this.readOut();
    const marks = marksNear(plot, this.data.marks, plot.valToPos(x, 'x'));
    setText(this.spoken, [`${xText(this.view.x, x)}: ${this.legend.text}`, ...marks].join(', '));
  }

  /// Keeps evaluations just outside the range, so that their line continues to the edges.
  private rowsShown(x: ArrayLike<number>): [number, number] {
    const [from, to] = this.view.range;
    let first = 0;
    let last = x.length - 1;
    while (first < last && x[first]! < from) first += 1;
    while (last > first && x[last]! > to) last -= 1;
    return [first, last];
  }

  /// A table with a few rows of the data for screen readers.
  private drawTable(): void {
    this.tableTimer = null;
    const plot = this.plot;
    if (!plot) return;
    const lines = this.data.lines.flatMap((line, at) =>
      line.legend
        ? [
            {
              line,
              xs: line.values ? line.x : plot.data[0],
              column: line.values ?? (plot.data[at + 1] as (number | null)[]),
            },
          ]
        : [],
    );
    const read = (
      { line, xs, column }: { line: Line; xs: ArrayLike<number>; column: (number | null)[] },
      row: number,
    ): string => readLine(line, xs, column, plot.data[0][row]!, this.far, (at) => this.place(at));
    replaceChildren(
      this.table,
      h(
        'table',
        {},
        h('caption', {}, `${this.options.title}, ${this.data.note}`),
        h(
          'thead',
          {},
          h(
            'tr',
            {},
            h('th', { scope: 'col' }, 'at'),
            lines.map(({ line }) => h('th', { scope: 'col' }, line.label)),
          ),
        ),
        h(
          'tbody',
          {},
          spread(plot.data[0].length).map((row) =>
            h(
              'tr',
              {},
              h('th', { scope: 'row' }, xText(this.view.x, plot.data[0][row]!)),
              lines.map((line) => h('td', {}, read(line, row))),
            ),
          ),
        ),
      ),
    );
  }

  private async saveCsv(): Promise<void> {
    setText(this.near, 'preparing the CSV …');
    try {
      await this.options.csv!();
      setText(this.near, '');
    } catch (error) {
      setText(this.near, `no CSV: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  private async savePng(): Promise<void> {
    const { savePicture } = await import('./picture');
    if (!this.mounted) this.mount(); // not in view before
    if (!this.plot) this.rebuild(this.shape);
    await savePicture(
      this.plot!.ctx.canvas,
      `${this.options.title}${this.options.unit ? ` (${this.options.unit})` : ''}`,
      this.legend.entries(this.data),
      this.data.note,
      `${this.options.fileName()}-${this.options.id.replace(/\W+/g, '-')}.png`,
    );
  }

  /// Resizes to the width of the container.
  fit(): void {
    const width = this.body.clientWidth;
    if (this.plot && width > 0 && Math.abs(width - this.plot.width) > 1) this.plot.setSize({ width, height: HEIGHT });
  }
}
