import uPlot from 'uplot';
import { type Tick, xText, xTick } from '../lib/axes';
import { type Child, h, replaceChildren, setText, swatch } from '../lib/dom';
import type { XMode } from '../lib/series';
import * as plotting from './plot';
import { type ChartData, color, type Line, readLine, type Values, type Xs, zoomed } from './plot';
import type { PictureLegend } from './picture';

export interface ChartOptions {
  id: string;
  title: string;
  unit: string;
  axisFormat: Tick;
  fileName: () => string; // prefix of saved files' names
  csv: () => Promise<void>; // saves the chart's unsampled data
  onZoom: (range: [number, number] | null) => void;
  onLog: ((log: boolean) => void) | null; // null: a logarithmic axis makes no sense
  tools?: Child; // further buttons
}

/// `range`: shown x range; `full`: that of all data; `waiting`: its data is still being loaded.
export type ChartView = { x: XMode; range: Range; full: Range; log: boolean; logX: boolean; waiting: boolean };
type Range = [number, number];

const SYNC_KEY = 'babelring';
const HEIGHT = 210;
const RIGHT_PX = 24; // half of a long label under the last tick
const FAR = 1 / 500; // fraction of the shown range; a value farther from the cursor is labelled with its place
const TABLE_AFTER_MS = 1500; // min time between updates of the hidden table
const MANY_LINES = 6;
const EMPTY: ChartData = { lines: [], note: '', marks: [] };
const inLegend = ({ lines }: ChartData): Line[] => lines.filter(({ legend }) => legend);

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
  private readonly legend = h('div.legend');
  private readonly body: HTMLElement;
  private readonly note: HTMLElement;
  private readonly near = h('span.chart-marks');
  private readonly spoken = h('p.visually-hidden', { 'aria-live': 'polite' });
  private readonly table = h('div.visually-hidden');
  private readonly logButton: HTMLButtonElement;
  private readonly resize = new ResizeObserver(() => this.fit());

  constructor(private readonly options: ChartOptions) {
    const { title, unit } = options;
    const id = `chart-${options.id}`;
    const tool = (label: string, text: string, onclick: () => void): HTMLButtonElement =>
      h('button.chip', { title: label, 'aria-label': `${title}: ${label}`, onclick }, text);
    this.note = h('p.chart-note', { id: `${id}-note` });
    this.logButton = tool('log y axis', 'log', () => options.onLog?.(!this.view.log));
    this.body = h('div.plot', {
      ...{ tabindex: 0, role: 'img', 'aria-labelledby': id, 'aria-describedby': `${id}-note` },
      'aria-keyshortcuts': 'ArrowLeft ArrowRight Home End + - Escape',
      onkeydown: (event: KeyboardEvent) => this.key(event),
    });
    const tools = [
      options.onLog && this.logButton,
      tool('every value as CSV', 'CSV', () => void this.saveCsv()),
      tool('picture as PNG', 'PNG', () => void this.savePng()),
      options.tools,
    ];
    this.element = h(
      'figure.card.chart',
      { 'data-chart': options.id },
      h('figcaption', h('h3', { id }, title, unit ? [' ', h('span.unit', unit)] : null), h('span.chart-tools', tools)),
      this.legend,
      this.body,
      h('div.chart-foot', this.note, this.near),
      this.spoken,
      this.table,
    );
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
    const none = view.waiting ? 'loading …' : 'no data yet';
    setText(this.note, data.lines.some(({ x }) => x.length > 0) ? data.note : none);
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
    this.drawLegend();
    this.plot = new uPlot(this.plotOptions(), this.columns(), this.body);
  }

  /// The names of the lines, each with a place for its value.
  private drawLegend(): void {
    if (this.data.lines.length > MANY_LINES)
      this.legend.tabIndex = 0; // it may scroll, so a keyboard must reach it
    else this.legend.removeAttribute('tabindex');
    const items = inLegend(this.data).map(({ color: name, kind, label }) => {
      const sign = swatch(name, kind === 'limit' ? '.swatch-dashed' : '');
      return h('span.legend-item', sign, h('span', label), h('output', { 'aria-live': 'off' }));
    });
    replaceChildren(this.legend, items);
  }

  /// Joins lines with different x arrays on the union of all x.
  private columns(): uPlot.AlignedData {
    const { lines } = this.data;
    if (lines.length === 0) return [[]];
    const positive = (value: number | null): number | null => (value !== null && value > 0 ? value : null);
    const shown = lines.map(({ y }) => (this.view.log ? y.map(positive) : y));
    if (lines.every(({ x }) => x === lines[0]!.x)) return [lines[0]!.x, ...shown];
    const tables = lines.map((line, index): uPlot.AlignedData => [line.x, shown[index]!]);
    const nullModes = lines.map((): uPlot.JoinNullMode[] => [0, 2]);
    return uPlot.join(tables, nullModes);
  }

  private plotOptions(): uPlot.Options {
    const { lines } = this.data;
    const { x, log, logX } = this.view;
    const showAll = (): null => {
      this.options.onZoom(null);
      return null;
    };
    return {
      width: Math.max(this.body.clientWidth, 240),
      height: HEIGHT,
      legend: { show: false },
      scales: { x: { time: false, distr: logX ? 3 : 1, range: () => this.view.range }, y: plotting.yScale(lines, log) },
      padding: [null, RIGHT_PX, null, null],
      axes: [plotting.xAxisOf(x, logX), plotting.yAxis(log, this.options.axisFormat)],
      series: [{}, ...lines.map(plotting.seriesOf)],
      bands: plotting.bandsOf(lines),
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
        bind: { dblclick: () => showAll },
      },
      hooks: {
        setSelect: [(plot) => this.select(plot)],
        setCursor: [() => this.readOut()],
        draw: [(plot) => plotting.drawMarks(plot, this.data.marks)],
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

  /// A line's value nearest to `x`. One that is far away is shown with its place.
  private valueAt(line: Line, xs: Xs, column: Values, x: number): string {
    const far = (this.view.range[1] - this.view.range[0]) * FAR;
    const place = (at: number): string => xTick(this.view.x, this.view.x === 'update' ? Math.round(at) : at);
    return line.values ? readLine(line, line.x, line.values, x, far, place) : readLine(line, xs, column, x, far, place);
  }

  /// The values under the cursor, otherwise the newest.
  private readOut(): void {
    const plot = this.plot;
    if (!plot) return;
    const { idx, left } = plot.cursor;
    const [xs, ...columns] = plot.data;
    const x = xs[idx ?? xs.length - 1] ?? 0;
    const outputs = this.legend.querySelectorAll('output');
    let shown = 0;
    this.data.lines.forEach((line, at) => {
      if (line.legend && outputs[shown]) setText(outputs[shown++]!, this.valueAt(line, xs, columns[at] ?? [], x));
    });
    const over = idx !== null && idx !== undefined && left !== undefined && left >= 0;
    const marks = over ? plotting.marksNear(plot, this.data.marks, left).slice(0, 3) : [];
    setText(this.near, over ? [xText(this.view.x, xs[idx] ?? 0), ...marks].join(' · ') : '');
  }

  private key(event: KeyboardEvent): void {
    const plot = this.plot;
    if (!plot || plot.data[0].length === 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const [xs] = plot.data;
    const [first, last] = this.rowsShown(xs);
    const stride = event.shiftKey ? Math.max(1, Math.round((last - first) / 20)) : 1;
    const at = Math.min(Math.max(plot.cursor.idx ?? last, first), last);
    if (event.key === 'Escape') return this.options.onZoom(null);
    if (['+', '=', '-'].includes(event.key)) {
      event.preventDefault();
      const factor = event.key === '-' ? 2 : 0.5;
      return this.options.onZoom(zoomed(this.view.range, xs[at]!, factor, this.view.full));
    }
    const target = { ArrowLeft: at - stride, ArrowRight: at + stride, Home: first, End: last }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    const x = xs[Math.min(Math.max(target, first), last)]!;
    plot.setCursor({ left: plot.valToPos(x, 'x'), top: plot.over.clientHeight / 2 });
    this.readOut();
    const marks = plotting.marksNear(plot, this.data.marks, plot.valToPos(x, 'x'));
    setText(this.spoken, [`${xText(this.view.x, x)}: ${this.legendText()}`, ...marks].join(', '));
  }

  private legendText(): string {
    const textOf = (item: Element): string =>
      [...item.children]
        .map((part) => part.textContent)
        .filter(Boolean)
        .join(' ');
    return [...this.legend.querySelectorAll('.legend-item')].map(textOf).join(', ');
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
    const [xs, ...columns] = plot.data;
    const lines = this.data.lines.flatMap((line, at) => (line.legend ? [{ line, column: columns[at]! }] : []));
    const rows = plotting.spread(xs.length).map((row) => {
      const cells = lines.map(({ line, column }) => h('td', this.valueAt(line, xs, column, xs[row]!)));
      return h('tr', h('th', { scope: 'row' }, xText(this.view.x, xs[row]!)), cells);
    });
    const heads = ['at', ...lines.map(({ line }) => line.label)].map((head) => h('th', { scope: 'col' }, head));
    const caption = h('caption', `${this.options.title}, ${this.data.note}`);
    replaceChildren(this.table, h('table', caption, h('thead', h('tr', heads)), h('tbody', rows)));
  }

  private async saveCsv(): Promise<void> {
    setText(this.near, 'preparing the CSV …');
    try {
      await this.options.csv();
      setText(this.near, '');
    } catch (error) {
      setText(this.near, `no CSV: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  private async savePng(): Promise<void> {
    const { savePicture } = await import('./picture');
    if (!this.mounted) this.mount(); // not in view before
    if (!this.plot) this.rebuild(this.shape);
    const { title, unit, fileName, id } = this.options;
    const outputs = this.legend.querySelectorAll('output');
    const legend = inLegend(this.data).map(
      (line, at): PictureLegend => ({ label: line.label, color: line.color, value: outputs[at]?.textContent ?? '' }),
    );
    const file = `${fileName()}-${id.replace(/\W+/g, '-')}.png`;
    await savePicture(this.plot!.ctx.canvas, `${title}${unit ? ` (${unit})` : ''}`, legend, this.data.note, file);
  }

  /// Resizes to the width of the container.
  fit(): void {
    const width = this.body.clientWidth;
    if (this.plot && width > 0 && Math.abs(width - this.plot.width) > 1) this.plot.setSize({ width, height: HEIGHT });
  }
}
