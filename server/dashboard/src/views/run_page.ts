import { ApiError, csvOf } from '../api/client';
import { EventStream, type StreamState } from '../api/stream';
import { Chart } from '../charts/chart';
import { CHARTS } from '../charts/definitions';
import { onThemeChange } from '../charts/theme';
import { RunData } from '../data/run_data';
import { h, oncePerFrame, replaceChildren } from '../lib/dom';
import { formatDuration } from '../lib/format';
import { xValue } from '../lib/series';
import { hashOfRun, type ViewState } from '../lib/view_state';
import type { Page, Status } from './page';
import { runHeader } from './run_header';
import { Samples } from './samples';
import { checkpointsTable, evalsTable, logTail, ranksTable } from './tables';
import { Toolbar } from './toolbar';

const REFRESH_MS = 500;    // at most so often is the server asked for what an event announced
const RECHECK_MS = 5000;   // ages, staleness

const section = (title: string, ...children: Node[]): HTMLElement => h('section', { class: 'card section' }, h('h2', {}, title), ...children);

/// One run, live: events say that something is new, plain requests fetch it, summed over ranks by the server.
export class RunPage implements Page {
  private readonly data: RunData;
  private readonly charts: Chart[];
  private readonly toolbar: Toolbar;
  private readonly samples = new Samples();
  private readonly slots = { header: h('div', {}), ranks: h('div', {}), evals: h('div', {}), checkpoints: h('div', {}), log: h('div', {}) };
  private readonly config = h('pre', { tabindex: 0, 'aria-label': 'Configuration' });
  private stream: EventStream | null = null;
  private streamState: StreamState = 'loading';
  private readonly timer: ReturnType<typeof setInterval>;
  private readonly stopTheme: () => void;
  private refreshing = false;
  private again = false;
  private closed = false;
  private readonly drawCharts = oncePerFrame(() => this.drawChartsNow());

  constructor(private readonly root: HTMLElement, id: string, private readonly view: ViewState, private readonly status: Status) {
    this.data = new RunData(id);
    this.toolbar = new Toolbar(id, {
      setX: (mode) => { this.view.x = mode; this.zoom(null); },
      setSmoothing: (value) => { this.view.smoothing = value; this.viewChanged(); },
      resetZoom: () => this.zoom(null),
    });
    this.charts = CHARTS.map(({ id: chart, title, unit, csvKey, axisFormat }) => new Chart({ id: chart, title, unit, axisFormat,
      csvHref: csvKey ? csvOf(id, csvKey) : null, onZoom: (range) => this.zoom(range), onLog: (log) => this.setLog(chart, log) }));
    this.stopTheme = onThemeChange(() => this.charts.forEach((chart) => chart.redraw()));
    this.timer = setInterval(() => this.drawFacts(), RECHECK_MS);
    status('loading', 'loading');
    void this.start();
  }

  close(): void {
    this.closed = true;
    this.stream?.close();
    clearInterval(this.timer);
    this.stopTheme();
    this.charts.forEach((chart) => chart.destroy());
    this.root.replaceChildren();
  }

  private async start(): Promise<void> {
    try {
      await this.data.loadFacts();
      await this.data.loadSeries(this.view);
    } catch (error) {
      if (this.closed) return;
      if (error instanceof ApiError && error.status === 404) {
        this.status('stale', 'not found');
        return replaceChildren(this.root, h('h1', {}, 'No such run'), h('p', {}, error.message));
      }
      this.status('reconnecting', 'reconnecting');
      setTimeout(() => void (this.closed || this.start()), 2000);
      return;
    }
    if (this.closed) return;
    this.mount();
    this.stream = new EventStream(this.data.id, (event) => this.changed(event.event === 'reset'), (state) => {
      this.streamState = state;
      this.showStatus();
    }, () => this.changed(false));
  }

  private mount(): void {
    const { slots } = this;
    replaceChildren(this.root, slots.header, this.toolbar.element,
      h('section', { class: 'charts', 'aria-label': 'Charts' }, h('h2', { class: 'visually-hidden' }, 'Charts'),
        this.charts.map((chart) => chart.element)),
      section('Translations', this.samples.element), section('Evaluations', slots.evals),
      section('Checkpoints', slots.checkpoints), section('Ranks', slots.ranks), section('Log', slots.log),
      h('section', { class: 'card section' }, h('h2', {}, 'Configuration'), this.config));
    this.viewChanged();
    this.drawFacts();
  }

  private changed(everything: boolean): void {
    this.again = true;
    if (!this.refreshing) void this.refresh(everything);
  }

  private async refresh(everything: boolean): Promise<void> {
    this.refreshing = true;
    while (this.again && !this.closed) {
      this.again = false;
      try {
        await this.data.loadFacts();
        await (everything ? this.data.loadSeries(this.view) : this.data.loadTail(this.view));
        this.drawFacts();
        this.drawCharts();
      } catch {
        this.streamState = 'reconnecting';
        this.again = true;
        this.showStatus();
      }
      await new Promise((resolve) => setTimeout(resolve, REFRESH_MS));
    }
    this.refreshing = false;
  }

  private showStatus(): void {
    const { run } = this.data;
    if (this.streamState !== 'live') return this.status(this.streamState, this.streamState);
    if (run && run.state !== 'running') return this.status('finished', run.state);
    const silent = run ? (Date.now() - Date.parse(run.updated_at)) / 1000 : 0;
    if (run?.stale_since) return this.status('stale', `stale since ${formatDuration(silent)}`);
    this.status('live', 'live');
  }

  private drawFacts(): void {
    if (this.closed || !this.data.run) return;
    const { data, slots } = this;
    document.title = `${data.run!.name || data.id} · Babelring`;
    replaceChildren(slots.header, runHeader(data, Date.now()));
    replaceChildren(slots.ranks, ranksTable(data));
    replaceChildren(slots.evals, evalsTable(data));
    replaceChildren(slots.checkpoints, checkpointsTable(data));
    replaceChildren(slots.log, logTail(data));
    slots.log.firstElementChild!.scrollTop = 1e9;
    const config = data.run!.config || 'not reported';
    if (this.config.textContent !== config) this.config.textContent = config;
    this.samples.update(data.evals);
    this.showStatus();
  }

  private drawChartsNow(): void {
    if (this.closed) return;
    const { data, view } = this;
    const range = view.range ?? this.fullRange();
    this.charts.forEach((chart, index) => {
      const definition = CHARTS[index]!;
      chart.update(definition.data(data, view), { x: view.x, range, log: view.log.has(definition.id) });
    });
  }

  private fullRange(): [number, number] {
    const { step, timeMs } = this.data.get('loss');
    const at = (row: number): number => xValue(step.at(row) ?? 0, timeMs.at(row) ?? 0, this.view.x, this.data.startMs);
    const to = at(-1);
    const from = this.view.x === 'wall' ? at(0) : 0;
    return to > from ? [from, to] : [from, from + 1];
  }

  private zoom(range: [number, number] | null): void {
    this.view.range = range;
    this.viewChanged();
    void this.data.loadSeries(this.view).then(() => this.drawCharts(), () => this.changed(true));
  }

  private setLog(chart: string, log: boolean): void {
    if (log) this.view.log.add(chart);
    else this.view.log.delete(chart);
    this.viewChanged();
  }

  private viewChanged(): void {
    history.replaceState(null, '', hashOfRun(this.data.id, this.view));
    this.toolbar.update(this.view);
    this.drawCharts();
  }
}
