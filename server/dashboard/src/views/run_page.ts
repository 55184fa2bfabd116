import { ApiError, explain, isAbort, runCsvOf } from '../api/client';
import { may } from '../api/session';
import { EventStream, type StreamState } from '../api/stream';
import { anyChart, type ChartDefinition, CHARTS, LINK } from '../charts/definitions';
import { ALL_PARTS, type Part, partsOf, RunData } from '../data/run_data';
import { xValue } from '../lib/axes';
import { h, instead, keep, patchChildren, replaceChildren, setText } from '../lib/dom';
import {
  defaultView,
  hashOfRun,
  RUN_TABS,
  type RunTab,
  tabOf,
  tabsOf,
  type ViewState,
  writeAddress,
} from '../lib/routes';
import { isLive, isSettled, percentDone, staleForMs } from '../data/runs';
import { Life, Refresher } from '../lib/work';
import { type ChartActions, ChartGrid, chartsOf, followPrinting, type Printable, Toolbar } from './chart_grid';
import { Owner, type Page, type Place } from './parts';
import type { RunSections } from './run_sections';
import { healthBand, RunActions, runTiles, runTitle } from './run_summary';
import { addShortcuts } from './site_header';

const REFRESH_MS = 250; // min time between requests for data that events announced
const RECHECK_MS = 1000; // refresh of ages, staleness and ranks
const ADDRESS_MS = 100; // browsers reject too frequent changes of the address
const SLOW_MS = 5000; // polling of data without events: the verdict, and the health of a silent run
const RARE_MS = 30_000; // polling of new keys
const AGAIN_MS = 2000; // delay before a failed start is repeated
const REST_MS = 8000; // delay before the rest of the page is prefetched
const REST_SERIES = 64;
const AHEAD_PX = 500; // all metrics, below the charts, are fetched at this distance from the window
const ARTIFACTS = ['inside', 'report'] as const; // tabs that show artifacts, or what an end changes
const FIRST_CHARTS = 6; // those whose series are loaded before any chart is in view
type Range = [number, number];
type SectionsFile = typeof import('./run_sections');
const fetchSections = (): Promise<SectionsFile> => import('./run_sections');

/// The x values of the whole run.
function fullRange(data: RunData, view: ViewState): Range {
  const { step, timeMs } = data.get('loss');
  const at = (row: number): number => xValue(data.axis, step.at(row) ?? 0, timeMs.at(row) ?? 0);
  const endMs = data.startMs + 1000 * (data.run?.elapsed_seconds ?? 0);
  const last = view.range && data.run ? xValue(data.axis, data.run.update, endMs) : at(-1);
  const from = view.x !== 'wall' ? 0 : view.range ? data.startMs / 1000 : at(0);
  return last > from ? [from, last] : [from, from + 1];
}

/// A logarithmic axis has no zero, so it begins at the first positive value.
function aboveZero(data: RunData, [from, to]: Range): Range {
  const { step, timeMs } = data.get('loss');
  const row = step.findIndex((each, at) => xValue(data.axis, each, timeMs[at] ?? 0) > 0);
  const first = row < 0 ? 1 : xValue(data.axis, step[row]!, timeMs[row]!);
  const low = from > 0 ? from : first;
  return [low, Math.max(to, low * 1.01)];
}

/// One run, live. Events announce new data, plain requests fetch it. The server aggregates over ranks.
class RunPage extends Life {
  private readonly data: RunData;
  private readonly charts: ChartGrid<RunData>;
  private readonly toolbar: Toolbar;
  private readonly summary: Owner;
  private readonly actions: RunActions;
  private readonly chartActions: ChartActions;
  private readonly below = h('div.below');
  private readonly next = h('div.next');
  private readonly tabs = h('nav.tabs', { 'aria-label': 'Sections of the run' });
  private readonly others = h('div.others'); // the panels of the other tabs
  private chartPanel = h('div');
  private tab: RunTab = 'charts';
  private readonly problem = h('p.problem', { role: 'alert' });
  private sections: Promise<RunSections> | null = null;
  private sectionsFile: SectionsFile | null = null;
  private shown: RunSections | null = null;
  private streamState: StreamState = 'loading';
  private readonly refresher: Refresher<Part>;
  private failing = false;
  private readonly again = this.later(AGAIN_MS, () => void this.start());
  private readonly drawCharts = this.onFrame(() => this.drawChartsNow());
  /// Writes the view into the address, so that a link reproduces it.
  private readonly remember = this.later(ADDRESS_MS, () => writeAddress(hashOfRun(this.data.id, this.view)));

  constructor(
    private readonly place: Place,
    id: string,
    private readonly view: ViewState,
  ) {
    super();
    this.data = new RunData(id, view, () => this.chartedKeys());
    const answered = (failed: boolean): void => {
      this.failing = failed;
      this.showStatus();
    };
    this.refresher = new Refresher<Part>((parts) => this.refresh(parts), answered, REFRESH_MS);
    this.chartActions = {
      zoom: (range) => this.zoom(range),
      changed: () => this.viewChanged(),
      cameIntoView: () => {
        this.refresher.ask(['missing']);
        this.drawCharts();
      },
      fileName: () => this.data.fileName,
    };
    const full = (): Range => fullRange(this.data, this.view);
    const asksLink = (): boolean => this.data.hosts().length > 1 && !this.data.measures(LINK);
    const csv = (): HTMLElement =>
      h('a.chip', { href: runCsvOf(id), download: `${this.data.fileName}.csv` }, 'all steps as CSV');
    this.toolbar = new Toolbar(view, this.chartActions, full, csv, asksLink);
    this.charts = new ChartGrid('Charts', chartsOf(this.data), view, this.chartActions);
    const changed = (): void => {
      this.refresher.ask(['run', 'transitions', 'checkpoints']);
      this.shown?.reload(ARTIFACTS);
    };
    this.actions = new RunActions(this.data, changed, () => this.drawFacts());
    this.summary = this.summaryPart();
    this.startLife();
    place.status('loading', 'loading');
    void this.start();
  }

  /// Starts the polls, and all that ends with the page.
  private startLife(): void {
    this.whenNear(this.below, AHEAD_PX, (near) => near && void this.showSections());
    this.later(REST_MS, () => void this.fetchRest(REST_SERIES).catch(() => undefined))();
    this.every(RECHECK_MS, () => this.drawFacts());
    this.poll('ranks', RECHECK_MS);
    this.poll('verdict', SLOW_MS);
    this.poll('run', SLOW_MS);
    this.poll('keys', RARE_MS);
    this.atEnd(
      this.shortcuts(),
      followPrinting(this.forPaper()),
      () => this.refresher.close(),
      () => this.charts.close(),
      () => this.place.root.replaceChildren(),
    );
  }

  /// The part above the charts. Ages change every second.
  private summaryPart(): Owner {
    const { data, actions } = this;
    const live = (): boolean => isLive(data.run!, data.runAtMs, Date.now());
    const second = (): number => Math.floor(Date.now() / 1000);
    return new Owner(() => ({
      inputs: () => [
        data.revision,
        second(),
        this.view.smoothing,
        live(),
        may('operate'),
        actions.answer,
        actions.form,
      ],
      render: () =>
        h(
          'section.run-header',
          { 'aria-label': 'Summary' },
          h('div.run-head', actions.form ? keep(actions.form) : runTitle(data, Date.now()), actions.render()),
          healthBand(data.run!.health, data.verdict, live(), actions.resume),
          runTiles(data, Date.now()),
        ),
    }));
  }

  private poll(part: Part, everyMs: number): void {
    this.every(everyMs, () => this.data.run?.state === 'running' && this.refresher.ask([part]));
  }

  private shortcuts(): () => void {
    const search = instead(() => {
      void this.showTab('charts');
      void this.showSections().then(({ metrics }) => metrics.focus());
    });
    return addShortcuts('A run', [
      { keys: ['/'], what: 'search all metrics', run: search },
      { keys: ['0'], what: 'show the whole run', run: () => this.zoom(null) },
      { keys: ['x'], what: 'logarithmic horizontal axis', run: () => this.toolbar.switchLogX() },
      { keys: ['ArrowLeft', 'ArrowRight'], what: 'on a chart: move the cursor, with shift in larger steps' },
      { keys: ['+', '-'], what: 'on a chart: zoom in or out at the cursor' },
      { keys: ['Escape'], what: 'on a chart: show everything again' },
    ]);
  }

  private async start(): Promise<void> {
    const told = this.open((share: number) => this.place.status('loading', `loading ${Math.round(100 * share)} %`));
    let failed = false;
    try {
      await this.data.load(new Set(ALL_PARTS), (share) => failed || told(share));
    } catch (error) {
      failed = true;
      if (!isAbort(error)) await this.startFailed(error);
      return;
    }
    this.open(() => this.mount())();
  }

  private async startFailed(error: unknown): Promise<void> {
    if (error instanceof ApiError && error.status === 404) {
      const { showMissingRun } = await import('./not_found');
      return this.open(() => showMissingRun(this.place.root, this.place.status, this.data.id))();
    }
    this.place.status('reconnecting', 'reconnecting');
    if (!this.problem.isConnected) replaceChildren(this.place.root, this.problem);
    setText(this.problem, `Not loaded yet: ${explain(error)}`);
    this.again();
  }

  private mount(): void {
    const heading = h('h2.visually-hidden', 'Charts');
    const charts = h('div.charted', this.toolbar.element, heading, this.charts.element);
    this.chartPanel = h('div.tab-panel', charts, this.below);
    replaceChildren(this.place.root, this.summary.element, this.next, this.tabs, this.chartPanel, this.others);
    this.tab = tabOf(this.view, this.data.run!);
    this.charts.arrange(this.offered());
    this.remember();
    void this.showTab(this.tab);
    this.drawFacts();
    this.follow();
  }

  private async showTab(tab: RunTab): Promise<void> {
    const chosen = tab !== this.tab;
    this.tab = tab;
    if (chosen) this.view.tab = tab;
    this.chartPanel.classList.toggle('shown', tab === 'charts');
    this.drawTabs();
    if (chosen) this.viewChanged();
    if (tab !== 'charts' || this.shown) (await this.showSections()).show(this.tab);
  }

  private drawTabs(): void {
    const run = this.data.run!;
    const link = (tab: RunTab): HTMLElement => {
      const follow = (event: MouseEvent): void => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a tab of the browser's
        event.preventDefault();
        void this.showTab(tab);
      };
      const href = hashOfRun(run.id, { ...defaultView(), tab });
      return h('a', { href, 'aria-current': tab === this.tab && 'true', onclick: follow }, RUN_TABS[tab]);
    };
    patchChildren(this.tabs, tabsOf(Boolean(run.finished_at)).map(link));
  }

  private follow(): void {
    const everythingNewer = ALL_PARTS.map((part) => (part === 'series' ? 'tail' : part));
    const stream = new EventStream(
      this.data.id,
      ({ event }) => {
        this.refresher.ask(partsOf(event));
        if (event === 'log' || event === 'reset') this.shown?.reload(['log']);
        if (event === 'artifact' || event === 'state' || event === 'reset') this.shown?.reload(ARTIFACTS);
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
    this.atEnd(() => stream.close());
  }

  /// Loads the other tabs when the user opens one, or scrolls to the end of the charts.
  private showSections(): Promise<RunSections> {
    return (this.sections ??= fetchSections().then((file) => this.buildSections(file)));
  }

  private buildSections({ RunSections: Sections }: SectionsFile): RunSections {
    if (this.shown) return this.shown;
    const sections = new Sections({
      data: this.data,
      view: this.view,
      charts: this.chartActions,
      anyChart,
      reload: (parts) => this.refresher.ask(parts),
      requestTrace: () => void this.actions.act('trace'),
      remember: this.remember,
      showTab: (tab) => this.showTab(tab),
    });
    this.shown = sections;
    this.atEnd(() => sections.close());
    this.open(() => {
      replaceChildren(this.below, sections.metrics.element);
      replaceChildren(this.others, sections.element);
      replaceChildren(this.next, sections.next.element);
      this.drawFacts();
    })();
    return sections;
  }

  /// Prefetches the rest of the page and up to `maxSeries` series of charts that are not in view yet.
  private async fetchRest(maxSeries: number): Promise<void> {
    this.sectionsFile = await fetchSections();
    await this.data.series.loadMissing(this.data.window, this.keysOf(this.offered()).slice(0, maxSeries));
  }

  private forPaper(): Printable {
    return {
      begin: () => {
        if (this.sectionsFile) this.buildSections(this.sectionsFile).showAll();
        this.charts.mountAll();
        this.drawChartsNow(true);
        this.grids().forEach((grid) => grid.fit());
      },
      end: () => this.charts.release(),
      load: async () => {
        (await this.showSections()).showAll();
        await this.fetchRest(Infinity);
      },
    };
  }

  private grids(): ChartGrid<RunData>[] {
    return this.shown ? [this.charts, this.shown.metrics.grid] : [this.charts];
  }

  private async refresh(parts: ReadonlySet<Part>): Promise<void> {
    await this.data.load(parts);
    this.drawFacts();
    if (parts.has('tail') || parts.has('series') || parts.has('missing') || parts.has('evals')) this.drawCharts();
  }

  private showStatus(): void {
    const { run, runAtMs } = this.data;
    if (this.failing) return this.place.status('reconnecting', 'reconnecting');
    if (this.streamState !== 'live') return this.place.status(this.streamState, this.streamState);
    if (run?.finished_at) return this.place.status('finished', run.state);
    const silentMs = run ? staleForMs(run, runAtMs, Date.now()) : null;
    if (silentMs === null) return this.place.status('live', 'live');
    this.place.status('stale', 'silent'); // a fixed text, which screen readers announce once; the health says since when
  }

  private readonly drawFacts = this.open(() => {
    const { run, runAtMs } = this.data;
    if (!run || !this.toolbar.element.isConnected) return;
    const live = isLive(run, runAtMs, Date.now());
    document.title = [live ? percentDone(run) : '', run.name || run.id, 'Babelring'].filter(Boolean).join(' · ');
    this.summary.draw();
    this.drawTabs();
    if (run.state === 'succeeded') void this.showSections();
    this.shown?.update();
    this.charts.arrange(this.offered());
    this.toolbar.update();
    this.showStatus();
  });

  private readonly drawChartsNow = this.open((now?: boolean) => {
    if (!this.data.run) return;
    const full = fullRange(this.data, this.view);
    const range = this.view.range ?? full;
    const shown = this.view.logX ? aboveZero(this.data, range) : range;
    for (const grid of this.grids()) grid.draw(shown, full, now);
  });

  private keysOf(charts: readonly ChartDefinition[]): string[] {
    return charts.flatMap((chart) => [...chart.keys(this.data)]);
  }

  /// The keys of the charts in view; before any is in view, those of the first ones.
  private chartedKeys(): string[] {
    const keys = this.keysOf(this.grids().flatMap((grid) => grid.mounted()));
    return keys.length > 0 ? keys : this.keysOf(this.offered().slice(0, FIRST_CHARTS));
  }

  private offered(): ChartDefinition[] {
    return CHARTS.filter(({ when }) => !when || when(this.data));
  }

  private zoom(range: Range | null): void {
    this.view.range = range;
    this.viewChanged();
    const shown = (): void => {
      this.drawFacts();
      this.drawCharts();
    };
    void this.data.load(new Set<Part>(['series'])).then(shown, () => this.refresher.ask(['series']));
  }

  private viewChanged(): void {
    this.remember();
    this.toolbar.update();
    this.drawCharts();
  }
}

export const open = (place: Place, { id, view }: { id: string; view: ViewState }): Page => new RunPage(place, id, view);
