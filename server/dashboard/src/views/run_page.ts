import { ApiError, explain, isAbort } from '../api/client';
import { EventStream, type StreamState } from '../api/stream';
import { zoomed } from '../charts/chart_data';
import { CHARTS, LINK } from '../charts/definitions';
import { onThemeChange } from '../charts/theme';
import { ALL_PARTS, partsOf, RunData, type Part } from '../data/run_data';
import { h, oncePerFrame, replaceChildren, setText, Slot } from '../lib/dom';
import { formatDateTime } from '../lib/format';
import { isSettled, staleForMs } from '../lib/freshness';
import { isLive, percentDone } from '../lib/health';
import { addShortcuts } from '../lib/keys';
import { Refresher } from '../lib/refresher';
import type { ViewState } from '../lib/run_view';
import { hashOfRun } from '../lib/routes';
import type { Page, Status } from './page';
import { followPrinting, type Printable } from './printing';
import { RunActions } from './run_actions';
import { ChartGrid, type ChartActions } from './run_charts';
import { runTiles, runTitle } from './run_header';
import { healthBand } from './run_health';
import { aboveZero, fullRange } from './run_range';
import type { RunSections } from './run_sections';
import { Toolbar } from './run_toolbar';
import { verdictBox } from './run_verdict';

const REFRESH_MS = 250; // min time between requests for data that events announced
const RECHECK_MS = 1000; // refresh of ages, staleness and ranks
const ADDRESS_MS = 100; // browsers reject too frequent changes of the address
const SLOW_MS = 5000; // polling of data without events: the verdict, and the health of a silent run
const RARE_MS = 30_000; // polling of new keys
const REST_MS = 8000; // delay before the rest of the page is prefetched
const REST_SERIES = 64;
const AHEAD = '500px 0px'; // sections below the charts are fetched at this distance from the window

type SectionsFile = typeof import('./run_sections');

const fetchSections = (): Promise<SectionsFile> => import('./run_sections');

/// One run, live. Events announce new data, plain requests fetch it. The server aggregates over ranks.
export class RunPage implements Page {
  private readonly data: RunData;
  private readonly charts: ChartGrid;
  private readonly toolbar: Toolbar;
  private readonly slots = { title: new Slot(), health: new Slot(), verdict: new Slot(), tiles: new Slot() };
  private readonly actions: RunActions;
  private readonly chartActions: ChartActions;
  private readonly below = h('div', { class: 'below' });
  private readonly problem = h('p', { class: 'problem', role: 'alert' });
  private sections: Promise<RunSections> | null = null;
  private sectionsFile: SectionsFile | null = null;
  private shown: RunSections | null = null;
  private stream: EventStream | null = null;
  private streamState: StreamState = 'loading';
  private readonly timers: ReturnType<typeof setInterval>[];
  private readonly endings: (() => void)[];
  private readonly refresher: Refresher<Part>;
  private failing = false;
  private writing: ReturnType<typeof setTimeout> | null = null;
  private closed = false;
  private readonly drawCharts = oncePerFrame(() => this.drawChartsNow());

  constructor(
    private readonly root: HTMLElement,
    id: string,
    private readonly view: ViewState,
    private readonly status: Status,
  ) {
    this.data = new RunData(id, view, () => this.chartedKeys());
    this.refresher = new Refresher<Part>(
      (parts) => this.refresh(parts),
      (failed) => {
        this.failing = failed;
        this.showStatus();
      },
      REFRESH_MS,
    );
    this.chartActions = {
      zoom: (range) => this.zoom(range),
      setLog: (chart, log) => this.setLog(chart, log),
      cameIntoView: () => {
        this.refresher.ask(['missing']);
        this.drawCharts();
      },
    };
    this.toolbar = new Toolbar(id, view, {
      setX: (mode) => {
        view.x = mode;
        view.logX &&= mode !== 'wall';
        this.zoom(null);
      },
      setLogX: (log) => {
        view.logX = log;
        this.viewChanged();
      },
      setSmoothing: (value) => {
        view.smoothing = value;
        this.viewChanged();
      },
      setLink: (gbit) => {
        view.linkGbit = gbit;
        this.viewChanged();
      },
      scale: (factor) => this.scale(factor),
      resetZoom: () => this.zoom(null),
    });
    this.charts = new ChartGrid('Charts', this.data, this.chartActions);
    this.actions = new RunActions(this.data, () => {
      this.refresher.ask(['run', 'transitions', 'checkpoints']);
      this.shown?.refreshArtifacts();
    });
    const near = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) void this.showSections();
      },
      { rootMargin: AHEAD },
    );
    near.observe(this.below);
    const resting = setTimeout(() => void this.fetchRest(REST_SERIES).catch(() => undefined), REST_MS);
    this.endings = [
      onThemeChange(() => this.redraw()),
      this.shortcuts(),
      () => near.disconnect(),
      followPrinting(this.forPaper()),
      () => clearTimeout(resting),
    ];
    this.timers = [
      setInterval(() => this.drawFacts(), RECHECK_MS),
      this.poll('ranks', RECHECK_MS),
      this.poll('verdict', SLOW_MS),
      this.poll('run', SLOW_MS),
      this.poll('keys', RARE_MS),
    ];
    status('loading', 'loading');
    void this.start();
  }

  close(): void {
    this.closed = true;
    if (this.writing !== null) clearTimeout(this.writing);
    this.refresher.close();
    this.stream?.close();
    this.timers.forEach((timer) => clearInterval(timer));
    this.endings.forEach((end) => end());
    this.charts.close();
    this.shown?.close();
    this.root.replaceChildren();
  }

  private poll(part: Part, everyMs: number): ReturnType<typeof setInterval> {
    return setInterval(() => {
      if (this.data.run?.state === 'running') this.refresher.ask([part]);
    }, everyMs);
  }

  private shortcuts(): () => void {
    return addShortcuts('A run', [
      {
        keys: ['/'],
        what: 'search all metrics',
        run: (event) => {
          event.preventDefault();
          void this.showSections().then((sections) => sections.searchMetrics());
        },
      },
      { keys: ['0'], what: 'show the whole run', run: () => this.zoom(null) },
      {
        keys: ['x'],
        what: 'logarithmic horizontal axis',
        run: () => {
          if (this.view.x !== 'wall') {
            this.view.logX = !this.view.logX;
            this.viewChanged();
          }
        },
      },
      { keys: ['ArrowLeft', 'ArrowRight'], what: 'on a chart: move the cursor, with shift in larger steps' },
      { keys: ['+', '-'], what: 'on a chart: zoom in or out at the cursor' },
      { keys: ['Escape'], what: 'on a chart: show everything again' },
    ]);
  }

  private async start(): Promise<void> {
    let failed = false;
    try {
      await this.data.load(new Set(ALL_PARTS), (share) => {
        if (!this.closed && !failed) this.status('loading', `loading ${Math.round(100 * share)} %`);
      });
    } catch (error) {
      failed = true;
      if (this.closed || isAbort(error)) return;
      if (error instanceof ApiError && error.status === 404) {
        return (await import('./not_found')).showMissingRun(this.root, this.status, this.data.id);
      }
      this.status('reconnecting', 'reconnecting');
      if (!this.problem.isConnected) replaceChildren(this.root, this.problem);
      setText(this.problem, `Not loaded yet: ${explain(error)}`);
      setTimeout(() => void (this.closed || this.start()), 2000);
      return;
    }
    if (this.closed) return;
    this.mount();
    const everythingNewer = ALL_PARTS.map((part) => (part === 'series' ? 'tail' : part));
    this.stream = new EventStream(
      this.data.id,
      ({ event }) => {
        this.refresher.ask(partsOf(event));
        if (event === 'log' || event === 'reset') this.shown?.log.refresh();
        if (event === 'artifact' || event === 'state' || event === 'reset') this.shown?.refreshArtifacts();
      },
      (state) => {
        this.streamState = state;
        if (state === 'live') this.refresher.ask(everythingNewer); // data from before the stream began
        this.showStatus();
      },
      () => this.refresher.ask(everythingNewer),
      '',
      () => isSettled(this.data.run, this.data.runAtMs, Date.now()),
      () => this.refresher.ask(['run']),
    );
  }

  private mount(): void {
    const { slots } = this;
    replaceChildren(
      this.root,
      h(
        'section',
        { class: 'run-header', 'aria-label': 'Summary' },
        h('div', { class: 'run-head' }, slots.title.element, this.actions.element),
        slots.health.element,
        slots.tiles.element,
        slots.verdict.element,
      ),
      h(
        'div',
        { class: 'charted' },
        this.toolbar.element,
        h('h2', { class: 'visually-hidden' }, 'Charts'),
        this.charts.element,
      ),
      this.below,
    );
    this.charts.arrange(this.offered());
    this.remember();
    this.drawFacts();
  }

  /// Loads the sections below the charts when the user scrolls near or asks for them.
  private showSections(): Promise<RunSections> {
    this.sections ??= fetchSections().then((file) => this.buildSections(file));
    return this.sections;
  }

  private buildSections({ RunSections: Sections }: SectionsFile): RunSections {
    if (this.shown) return this.shown;
    const sections = new Sections(this.data, this.view, {
      charts: this.chartActions,
      reload: (parts) => this.refresher.ask(parts),
      requestTrace: () => void this.actions.act('trace'),
      viewChanged: () => this.remember(),
    });
    if (this.closed) return sections;
    this.shown = sections;
    replaceChildren(this.below, sections.elements);
    this.drawFacts();
    sections.log.refresh();
    return sections;
  }

  /// Prefetches the rest of the page and up to `maxSeries` series of charts that are not in view yet.
  private async fetchRest(maxSeries: number): Promise<void> {
    this.sectionsFile = await fetchSections();
    const names = this.offered()
      .flatMap((chart) => [...chart.keys(this.data)])
      .slice(0, maxSeries);
    if (!this.closed) await this.data.series.loadMissing(this.data.window, names);
  }

  private forPaper(): Printable {
    return {
      begin: () => {
        if (this.sectionsFile) this.buildSections(this.sectionsFile);
        this.charts.mountAll();
        this.drawChartsNow(true);
        this.grids().forEach((grid) => grid.fit());
      },
      end: () => this.charts.release(),
      load: async () => {
        await this.showSections();
        await this.fetchRest(Infinity);
      },
    };
  }

  private grids(): ChartGrid[] {
    return this.shown ? [this.charts, this.shown.grid] : [this.charts];
  }

  private async refresh(parts: ReadonlySet<Part>): Promise<void> {
    await this.data.load(parts);
    if (this.closed) return;
    this.drawFacts();
    if (parts.has('tail') || parts.has('series') || parts.has('missing') || parts.has('evals')) this.drawCharts();
  }

  private showStatus(): void {
    const { run, runAtMs } = this.data;
    if (this.failing) return this.status('reconnecting', 'reconnecting');
    if (this.streamState !== 'live') return this.status(this.streamState, this.streamState);
    if (run?.finished_at) return this.status('finished', run.state);
    const silentMs = run ? staleForMs(run, runAtMs, Date.now()) : null;
    if (silentMs !== null) return this.status('stale', `stale since ${formatDateTime(runAtMs - run!.record_age_ms)}`); // a fixed time, so that screen readers announce it once
    this.status('live', 'live');
  }

  /// Draws what has changed. Ages change every second.
  private drawFacts(): void {
    if (this.closed || !this.data.run || !this.toolbar.element.isConnected) return;
    const { data, slots } = this;
    const nowMs = Date.now();
    const second = Math.floor(nowMs / 1000);
    const run = data.run!;
    const live = isLive(run, data.runAtMs, nowMs);
    document.title = [live ? percentDone(run) : '', run.name || data.id, 'Babelring'].filter(Boolean).join(' · ');
    slots.title.show([data.run, second], () => runTitle(data, nowMs));
    slots.health.show([JSON.stringify(run.health), this.actions.resume, data.verdict !== null], () =>
      healthBand(run.health, this.actions.resume, data.verdict !== null),
    );
    slots.tiles.show([data.revision, second, this.view.smoothing], () => runTiles(data, nowMs));
    slots.verdict.show([data.verdict, live], () => verdictBox(data.verdict, live));
    this.actions.update();
    this.shown?.update(nowMs);
    this.charts.arrange(this.offered());
    this.toolbar.nameFile(data.fileName);
    this.toolbar.askForLink(data.hosts().length > 1 && !data.measures(LINK));
    this.showStatus();
  }

  private drawChartsNow(now = false): void {
    if (this.closed || !this.data.run) return;
    const full = fullRange(this.data, this.view);
    const shown = this.view.logX ? aboveZero(this.data, this.view.range ?? full) : (this.view.range ?? full);
    for (const grid of this.grids()) grid.draw(this.view, shown, full, now);
  }

  private redraw(): void {
    this.charts.redraw();
    this.shown?.redraw();
  }

  /// The keys of the charts in view; before any is in view, those of the first six.
  private chartedKeys(): string[] {
    const keys = this.grids().flatMap((grid) => grid.keys());
    return keys.length > 0
      ? keys
      : this.offered()
          .slice(0, 6)
          .flatMap((chart) => [...chart.keys(this.data)]);
  }

  private offered(): typeof CHARTS {
    return CHARTS.filter(({ when }) => !when || when(this.data));
  }

  private zoom(range: [number, number] | null): void {
    this.view.range = range;
    this.viewChanged();
    void this.data.load(new Set<Part>(['series'])).then(
      () => {
        this.drawFacts();
        this.drawCharts();
      },
      () => this.refresher.ask(['series']),
    );
  }

  private scale(factor: number): void {
    const full = fullRange(this.data, this.view);
    const range = this.view.range ?? full;
    this.zoom(zoomed(range, (range[0] + range[1]) / 2, factor, full));
  }

  private setLog(chart: string, log: boolean): void {
    if (log) this.view.log.add(chart);
    else this.view.log.delete(chart);
    this.viewChanged();
  }

  /// Writes the view into the address, so that a link reproduces it.
  private remember(): void {
    if (this.writing !== null) clearTimeout(this.writing);
    this.writing = setTimeout(() => history.replaceState(null, '', hashOfRun(this.data.id, this.view)), ADDRESS_MS);
  }

  private viewChanged(): void {
    this.remember();
    this.toolbar.update();
    this.drawCharts();
  }
}
