import uPlot from 'uplot';
import { h, replaceChildren, setText } from '../lib/dom';
import { formatClock, formatCount, formatDateTime, formatDuration } from '../lib/format';
import type { XMode } from '../lib/series';
import type { ChartData } from './chart_data';
import { color } from './theme';
import { axisOf, seriesOf } from './plot_options';

export interface ChartOptions {
  id: string;
  title: string;
  unit: string;
  csvHref: string | null;
  axisFormat: (value: number) => string;
  onZoom: (range: [number, number] | null) => void;
  onLog: (log: boolean) => void;
}

export interface ChartView {
  x: XMode;
  range: [number, number];
  log: boolean;
}

const SYNC_KEY = 'babelring';
const HEIGHT = 210;

/// One figure: title, legend that reads the values under the cursor, plot. All charts of a page share the x axis and the
/// cursor; a drag zooms all of them, a double click shows everything again, arrow keys move the cursor.
export class Chart {
  readonly element: HTMLElement;
  private plot: uPlot | null = null;
  private shape = '';
  private data: ChartData = { lines: [], note: '', nonFinite: [] };
  private view: ChartView = { x: 'update', range: [0, 1], log: false };
  private readonly body: HTMLElement;
  private readonly legend: HTMLElement;
  private readonly note: HTMLElement;
  private readonly spoken: HTMLElement;
  private readonly logButton: HTMLButtonElement;
  private readonly resize: ResizeObserver;

  constructor(private readonly options: ChartOptions) {
    const titleId = `chart-${options.id}`;
    this.legend = h('div', { class: 'legend' });
    this.note = h('p', { class: 'chart-note' });
    this.spoken = h('p', { class: 'visually-hidden', 'aria-live': 'polite' });
    this.logButton = h('button', { class: 'chip', type: 'button', 'aria-pressed': 'false', title: 'Logarithmic y axis',
      onclick: () => options.onLog(!this.view.log) }, 'log');
    this.body = h('div', { class: 'plot', tabindex: 0, role: 'img', 'aria-labelledby': titleId,
      'aria-describedby': `${titleId}-note`, onkeydown: (event: KeyboardEvent) => this.key(event) });
    this.note.id = `${titleId}-note`;
    this.element = h('figure', { class: 'card chart' },
      h('figcaption', {},
        h('h3', { id: titleId }, options.title, options.unit ? h('span', { class: 'unit' }, options.unit) : null),
        h('span', { class: 'chart-tools' }, this.logButton, options.csvHref
          ? h('a', { class: 'chip', href: options.csvHref, download: '', 'aria-label': `${options.title} as CSV` }, 'CSV')
          : null)),
      this.legend, this.body, this.note, this.spoken);
    this.resize = new ResizeObserver(() => this.fit());
    this.resize.observe(this.body);
  }

  update(data: ChartData, view: ChartView): void {
    const shape = JSON.stringify([view.x, view.log, data.lines.map(({ label, kind }) => [label, kind])]);
    this.data = data;
    this.view = view;
    this.logButton.setAttribute('aria-pressed', String(view.log));
    setText(this.note, data.lines.some(({ x }) => x.length > 0) ? data.note : 'no data yet');
    if (shape !== this.shape || !this.plot) this.rebuild(shape);
    else this.plot.setData(this.table());
    this.readOut();
  }

  /// For a change of theme: colours are baked into the plot.
  redraw(): void {
    this.rebuild(this.shape);
    this.readOut();
  }

  destroy(): void {
    this.resize.disconnect();
    this.plot?.destroy();
  }

  private rebuild(shape: string): void {
    this.plot?.destroy();
    this.shape = shape;
    replaceChildren(this.legend, this.data.lines.filter(({ legend }) => legend).map((line) =>
      h('span', { class: 'legend-item' }, h('span', { class: `swatch swatch-${line.color}`, 'aria-hidden': 'true' }),
        h('span', {}, line.label), h('output', { 'aria-live': 'off' }))));
    this.plot = new uPlot(this.plotOptions(), this.table(), this.body);
  }

  /// Lines that share an x array stay together; the others are joined on the union of all x.
  private table(): uPlot.AlignedData {
    const { lines } = this.data;
    if (lines.length === 0) return [[]];
    const shown = lines.map(({ y }) => (this.view.log ? y.map((value) => (value !== null && value > 0 ? value : null)) : y));
    if (lines.every(({ x }) => x === lines[0]!.x)) return [lines[0]!.x, ...shown];
    const tables = lines.map((line, index): uPlot.AlignedData => [line.x, shown[index]!]);
    return uPlot.join(tables, lines.map(() => [0, 2]));
  }

  private plotOptions(): uPlot.Options {
    const { lines } = this.data;
    const low = lines.findIndex(({ kind }) => kind === 'low');
    return {
      width: Math.max(this.body.clientWidth, 240),
      height: HEIGHT,
      legend: { show: false },
      scales: {
        x: { time: false, range: () => this.view.range },
        y: { distr: this.view.log ? 3 : 1, ...(lines.some(({ kind }) => kind === 'area') && !this.view.log
          ? { range: (_plot, _min, max) => [0, max > 0 ? max * 1.06 : 1] as uPlot.Range.MinMax } : {}) },
      },
      axes: [axisOf({ space: 64, values: (_plot, ticks) => this.xLabels(ticks) }),
        axisOf({ size: 56, space: 34, values: (_plot, ticks) => ticks.map((tick) =>
          (tick === null ? '' : this.options.axisFormat(tick))) })],
      series: [{}, ...lines.map(seriesOf)],
      ...(low >= 0 ? { bands: [{ series: [low + 2, low + 1] as [number, number], fill: `${color(lines[low]!.color)}2e` }] } : {}),
      cursor: {
        drag: { x: true, y: false, setScale: false, uni: 12 },
        points: { size: 6 },
        sync: { key: SYNC_KEY, scales: ['x', null], filters: { pub: (type) => type === 'mousemove' || type === 'mouseleave' } },
        bind: { dblclick: () => () => { this.options.onZoom(null); return null; } },
      },
      hooks: {
        setSelect: [(plot) => this.select(plot)],
        setCursor: [() => this.readOut()],
        draw: [(plot) => this.markNonFinite(plot)],
      },
    };
  }

  private xLabels(ticks: number[]): string[] {
    if (this.view.x === 'update') return ticks.map((tick) => (Number.isInteger(tick) ? formatCount(tick) : ''));
    if (this.view.x === 'elapsed') return ticks.map((tick) => (tick === 0 ? '0' : formatDuration(tick)));
    return ticks.map((tick) => formatClock(tick * 1000));
  }

  private select(plot: uPlot): void {
    if (plot.select.width < 4) return;
    const from = plot.posToVal(plot.select.left, 'x');
    const to = plot.posToVal(plot.select.left + plot.select.width, 'x');
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.options.onZoom([from, to]);
  }

  /// The values under the cursor, else the newest ones; a sparse line shows its last value up to there.
  private readOut(): void {
    const outputs = this.legend.querySelectorAll('output');
    const table = this.plot?.data;
    if (!table) return;
    const row = this.plot!.cursor.idx ?? table[0].length - 1;
    let shown = 0;
    this.data.lines.forEach((line, index) => {
      if (!line.legend) return;
      const column = line.values ?? table[index + 1] ?? [];
      let at = row;
      while (at > 0 && (column[at] === null || column[at] === undefined)) at -= 1;
      setText(outputs[shown++]!, line.format(column[at] ?? null));
    });
  }

  private key(event: KeyboardEvent): void {
    const plot = this.plot;
    if (!plot || plot.data[0].length === 0) return;
    const last = plot.data[0].length - 1;
    const stride = event.shiftKey ? Math.max(1, Math.round(last / 20)) : 1;
    const at = plot.cursor.idx ?? last;
    const target = { ArrowLeft: at - stride, ArrowRight: at + stride, Home: 0, End: last }[event.key];
    if (event.key === 'Escape') return this.options.onZoom(null);
    if (target === undefined) return;
    event.preventDefault();
    const x = plot.data[0][Math.min(Math.max(target, 0), last)]!;
    plot.setCursor({ left: plot.valToPos(x, 'x'), top: plot.over.clientHeight / 2 });
    this.readOut();
    setText(this.spoken, `${this.xText(x)}: ${this.legend.innerText.replace(/\s+/g, ' ')}`);
  }

  private xText(x: number): string {
    if (this.view.x === 'update') return `update ${formatCount(x)}`;
    return this.view.x === 'elapsed' ? formatDuration(x) : formatDateTime(x * 1000);
  }

  private markNonFinite(plot: uPlot): void {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = color('bad');
    for (const x of this.data.nonFinite) {
      const left = plot.valToPos(x, 'x', true);
      if (left < bbox.left || left > bbox.left + bbox.width) continue;
      const size = 5 * devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(left - size, bbox.top);
      ctx.lineTo(left + size, bbox.top);
      ctx.lineTo(left, bbox.top + 1.6 * size);
      ctx.fill();
    }
    ctx.restore();
  }

  private fit(): void {
    const width = this.body.clientWidth;
    if (this.plot && width > 0 && Math.abs(width - this.plot.width) > 1) this.plot.setSize({ width, height: HEIGHT });
  }
}
