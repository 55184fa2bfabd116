import { ApiError, csvOf } from '../api/client';
import { EventStream, type StreamState } from '../api/stream';
import { Chart } from '../charts/chart';
import { CHARTS } from '../charts/definitions';
import { onThemeChange } from '../charts/theme';
import { ALL_PARTS, partsOf, RunData, type Part } from '../data/run_data';
import { h, oncePerFrame, replaceChildren, setText, Slot } from '../lib/dom';
import { formatDuration } from '../lib/format';
import { staleForMs } from '../lib/freshness';
import { Refresher } from '../lib/refresher';
import { xValue } from '../lib/series';
import { hashOfRun, type ViewState } from '../lib/view_state';
import type { Page, Status } from './page';
import { runHeader } from './run_header';
import { Samples } from './samples';
import { checkpointsTable, evalsTable, logTail, ranksTable } from './tables';
import { Toolbar } from './toolbar';

const REFRESH_MS = 500;    // at most so often is the server asked for what an event announced
const RECHECK_MS = 1000;   // ages, staleness

const section = (title: string, ...children: Node[]): HTMLElement => h('section', { class: 'card section' }, h('h2', {}, title), ...children);

/// One run, live: events say that something is new, plain requests fetch it, summed over ranks by the server.
export class RunPage implements Page {
  private readonly data: RunData;
  private readonly charts: Chart[];
  private readonly toolbar: Toolbar;
  private readonly samples = new Samples();
  private readonly slots = { header: new Slot(), ranks: new Slot(), evals: new Slot(), checkpoints: new Slot(), log: new Slot() };
  private readonly config = h('pre', { tabindex: 0, 'aria-label': 'Configuration' });
  private stream: EventStream | null = null;
  private streamState: StreamState = 'loading';
  private readonly timer: ReturnType<typeof setInterval>;
  private readonly stopTheme: () => void;
  private readonly refresher: Refresher<Part>;
  private failing = false;
  private closed = false;
  private readonly drawCharts = oncePerFrame(() => this.drawChartsNow());

  constructor(private readonly root: HTMLElement, id: string, private readonly view: ViewState, private readonly status: Status) {
    this.data = new RunData(id);
    this.refresher = new Refresher<Part>((parts) => this.refresh(parts), (failed) => {
      this.failing = failed;
      this.showStatus();
    }, REFRESH_MS);
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
    this.refresher.close();
    this.stream?.close();
    clearInterval(this.timer);
    this.stopTheme();
    this.charts.forEach((chart) => chart.destroy());
    this.root.replaceChildren();
  }

  private async start(): Promise<void> {
    try {
      await this.data.load(new Set(ALL_PARTS), this.view);
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
    const everythingNewer = ALL_PARTS.map((part) => (part === 'series' ? 'tail' : part));
    this.stream = new EventStream(this.data.id, (event) => this.refresher.ask(partsOf(event.event)), (state) => {
      this.streamState = state;
      if (state === 'live') this.refresher.ask(everythingNewer);  // what came before the stream began
      this.showStatus();
    }, () => this.refresher.ask(everythingNewer));
  }

  private mount(): void {
    const { slots } = this;
    replaceChildren(this.root, slots.header.element, this.toolbar.element,
      h('section', { class: 'charts', 'aria-label': 'Charts' }, h('h2', { class: 'visually-hidden' }, 'Charts'),
        this.charts.map((chart) => chart.element)),
      section('Translations', this.samples.element), section('Evaluations', slots.evals.element),
      section('Checkpoints', slots.checkpoints.element), section('Ranks', slots.ranks.element),
      section('Log', slots.log.element),
      h('section', { class: 'card section' }, h('h2', {}, 'Configuration'), this.config));
    this.viewChanged();
    this.drawFacts();
  }

  private async refresh(parts: ReadonlySet<Part>): Promise<void> {
    await this.data.load(parts, this.view);
    if (this.closed) return;
    this.drawFacts();
    this.drawCharts();
  }

  private showStatus(): void {
    const { run, runAtMs } = this.data;
    if (this.failing) return this.status('reconnecting', 'reconnecting');
    if (this.streamState !== 'live') return this.status(this.streamState, this.streamState);
    if (run && run.state !== 'running') return this.status('finished', run.state);
    const silentMs = run ? staleForMs(run, runAtMs, Date.now()) : null;
    if (silentMs !== null) return this.status('stale', `stale for ${formatDuration(silentMs / 1000)}`);
    this.status('live', 'live');
  }

  /// Draws what has changed; ages change every second by themselves.
  private drawFacts(): void {
    if (this.closed || !this.data.run) return;
    const { data, slots } = this;
    const nowMs = Date.now();
    const second = Math.floor(nowMs / 1000);
    document.title = `${data.run!.name || data.id} · Babelring`;
    slots.header.show([data.revision, second], () => runHeader(data, nowMs));
    slots.ranks.show([data.ranks, second], () => ranksTable(data, nowMs));
    slots.evals.show([data.evals, data.run!.best?.id], () => evalsTable(data));
    slots.checkpoints.show([data.checkpoints], () => checkpointsTable(data));
    this.drawLog();
    setText(this.config, data.run!.config || 'not reported');
    this.samples.update(data.evals);
    this.showStatus();
  }

  /// Follows the newest line unless the reader has scrolled away from it.
  private drawLog(): void {
    const box = this.slots.log.element.firstElementChild;
    const follows = !box || box.scrollHeight - box.scrollTop - box.clientHeight < 8;
    this.slots.log.show([this.data.logs], () => logTail(this.data));
    const shown = this.slots.log.element.firstElementChild!;
    if (follows) shown.scrollTop = shown.scrollHeight;
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
    void this.data.loadSeries(this.view).then(() => this.drawCharts(), () => this.refresher.ask(['series']));
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
