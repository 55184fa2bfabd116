import '../styles/compare.css';
import * as compare from './compare_data';
import { ApiError, explain, getAll, getItems } from '../api/client';
import type { Checkpoint, Difference, Run } from '../api/types';
import type { ChartDefinition } from '../charts/definitions';
import { tickOf } from '../lib/axes';
import { checkedOf, type Child, h, instead, keep, replaceChildren, saveBlob } from '../lib/dom';
import { isEval } from '../lib/format';
import { hashOf, MAX_RUNS, writeAddress } from '../lib/routes';
import { Life } from '../lib/work';
import { type ChartActions, ChartGrid, followPrinting, Toolbar } from './chart_grid';
import { ComparedRun, type CompareState, offered, titleOf } from './compare_data';
import * as groups from './compare_groups';
import type { Lane } from './compare_groups';
import { options, Owner, type Page, type Place } from './parts';
import { addShortcuts } from './site_header';

const LIVE_MS = 3000;
const CSV = 'comparison as CSV';

/// Compares runs: curves, best values and differences between their configurations. The address reproduces the view.
class ComparePage extends Life {
  private state: CompareState;
  private runs: ComparedRun[];
  private readonly charts: ChartGrid<ComparePage>;
  private readonly toolbar: Toolbar;
  private readonly body = new Owner(() => ({
    inputs: () => [this.revision, this.known, this.problem],
    render: () => this.render(),
  }));
  private readonly runInput = this.adder('run', 'add a run', () => this.addRun());
  private readonly keyInput = this.adder('key', 'add a metric', () => this.addKey());
  private problem = '';
  private csvText = CSV;
  private known: readonly Run[] = [];
  private lanes: readonly Lane[] = [];
  private choiceFile: typeof import('./compare_choice') | null = null;
  private choosing: Promise<void> | null = null;
  private chosenRun: ComparedRun | null = null;
  private checkpoint: Checkpoint | null = null; // of the chosen run
  private differences: readonly Difference[] = [];
  private comparedBests = '';
  private revision = 0;
  private readonly draw = this.onFrame(() => this.drawNow());

  constructor(
    private readonly place: Place,
    query: URLSearchParams,
  ) {
    super();
    document.title = 'Compare · Babelring';
    this.state = compare.parseCompare(query);
    this.runs = this.state.runs.map((id) => this.makeRun(id));
    const { view } = this.state;
    const actions: ChartActions = {
      zoom: (range) => this.zoom(range),
      changed: () => this.changed(),
      cameIntoView: () => undefined,
      fileName: () => 'comparison',
    };
    const source = {
      data: this as ComparePage,
      waiting: () => this.runs.some(({ run }) => run === null),
      saveCsv: ({ id }: { id: string }) => this.saveCsv([id]),
    };
    const csv = (): HTMLElement =>
      h('button.chip', { onclick: () => void this.saveCsv(this.state.keys) }, this.csvText);
    this.charts = new ChartGrid('Charts', source, view, actions);
    this.charts.mountAll();
    this.toolbar = new Toolbar(view, actions, () => compare.fullRange(this.runs, this.state.keys, view), csv);
    const fit = (): void => this.charts.fit();
    const search = instead(() => this.keyInput.focus());
    this.atEnd(
      followPrinting({ begin: fit, end: fit, load: () => Promise.resolve() }),
      addShortcuts('Comparison', [{ keys: ['/'], what: 'add a metric', run: search }]),
      () => this.charts.close(),
      () => place.root.replaceChildren(),
    );
    this.every(LIVE_MS, () => void this.refresh());
    replaceChildren(place.root, this.body.element);
    this.body.element.className = 'charted';
    this.changed();
    this.start();
  }

  private adder(what: 'run' | 'key', placeholder: string, onchange: () => void): HTMLInputElement {
    return h('input', { type: 'search', list: `all-${what}s`, id: `add-${what}`, placeholder, onchange });
  }

  private makeRun(id: string): ComparedRun {
    return new ComparedRun(id, () => new Set(this.state.keys.filter((key) => !isEval(key))));
  }

  private render(): Child {
    const { state, runs, toolbar, charts, lanes } = this;
    const setRuns = (ids: readonly string[]): void => this.setRuns(ids);
    const none = runs.length === 0;
    const known = this.known.map(({ id, name, state: is }) => [id, `${name} · ${is}`] as const);
    const keys = this.offeredKeys().map((value) => h('option', { value }));
    const fold = (event: Event): void => this.set({ fold: checkedOf(event) });
    const folded = h(
      'label.tick',
      h('input', { type: 'checkbox', checked: state.fold, onchange: fold }),
      ' fold seeds',
    );
    const list = h('a', { href: '#/runs' }, 'list');
    const how = h('p', 'Choose the runs to compare: tick them in the ', list, ', or add them here.');
    const cut = compare.cutText(state.asked);
    const loaded = runs.filter(({ run }) => run !== null).length;
    return [
      h('div.list-head', h('h1', 'Compare runs'), h('p.problem', { role: 'alert' }, this.problem)),
      h(
        'div.filters',
        none && how,
        cut && h('p.problem', cut),
        offered(this.known, state.runs, setRuns),
        h(
          'div.filters',
          [h('label.visually-hidden', { for: 'add-run' }, 'Add a run'), keep(this.runInput)],
          h('datalist', { id: 'all-runs' }, options(known)),
          h(
            'span.group',
            { hidden: none },
            [h('label.visually-hidden', { for: 'add-key' }, 'Add a metric'), keep(this.keyInput)],
            h('datalist', { id: 'all-keys' }, keys),
          ),
          runs.length > 1 && folded,
          loaded < runs.length && h('span.muted', { role: 'status' }, `${loaded} of ${runs.length} runs loaded`),
        ),
      ),
      h(
        'section.card.compare-legend',
        { 'aria-label': 'Compared runs', hidden: lanes.length === 0 },
        groups.legend(lanes, state, setRuns),
      ),
      h('div', lanes.length > 1 && this.choice()),
      h(
        'div.charted',
        { hidden: none },
        h('div.charted', keep(toolbar.element), h('h2.visually-hidden', 'Charts'), keep(charts.element)),
        this.tables(),
      ),
    ];
  }

  /// Best values and configurations side by side.
  private tables(): Child {
    const { lanes, state } = this;
    const over = h('small.muted', 'over all ranks, in the range shown');
    const set = (event: Event): void => this.set({ same: checkedOf(event) });
    const same = h(
      'label.tick',
      h('input', { type: 'checkbox', checked: state.same, onchange: set }),
      ' include equal keys',
    );
    return [
      h(
        'section.card.section',
        h('h2', 'Best values ', over),
        h('div', h('div', groups.bestTable(lanes, state.keys))),
        groups.differenceList(lanes, this.differences),
      ),
      h(
        'section.card.section',
        h('div.list-head', h('h2', 'Configuration'), same),
        h('div', h('div', groups.configTable(lanes, state.same))),
      ),
    ];
  }

  private set(part: Partial<CompareState>): void {
    this.state = { ...this.state, ...part };
    this.changed();
  }

  /// The configurations by their score, and the one to take.
  private choice(): Child {
    const file = this.choiceFile;
    if (!file) {
      this.choosing ??= import('./compare_choice').then((loaded) => {
        this.choiceFile = loaded;
        this.redraw();
      });
      this.choosing.catch(() => (this.choosing = null)); // the next draw tries again
      return null;
    }
    const chosen = file.chosenOf(this.lanes);
    if (chosen && chosen.run !== this.chosenRun) {
      this.chosenRun = chosen.run;
      this.checkpoint = null;
      const take = (checkpoint: Checkpoint | null): void => {
        this.checkpoint = checkpoint;
        this.redraw();
      };
      void file.bestCheckpoint(chosen.run).then(take, () => undefined);
    }
    return h(
      'section.card.section',
      h('h2', 'Which one? ', h('small.muted', 'best evaluation of each run, mean ± standard deviation over seeds')),
      chosen && file.thisOne(chosen, this.checkpoint, (text) => this.place.say(text)),
      h('div', file.choiceTable(this.lanes)),
      h(
        'div',
        file.settingsPart(this.lanes, this.state.over, (over) => this.set({ over })),
      ),
    );
  }

  private start(): void {
    this.place.status('loading', 'loading');
    const know = (runs: readonly Run[]): void => {
      this.known = runs;
      this.draw();
    };
    void getAll<Run>('/runs').then(know, () => undefined);
    void this.load(this.runs);
  }

  /// Loads runs in parallel. A run that fails to load does not hold up the others and is retried unless it does not exist.
  private async load(runs: readonly ComparedRun[]): Promise<void> {
    const { view } = this.state;
    const results = await Promise.allSettled(runs.map((run) => run.loadRun().finally(() => this.came())));
    const failures = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
    const missing = runs.filter((_run, at) => results[at]!.status === 'rejected');
    failures.push(...(await this.loadLines(view, runs)));
    const again = failures.some((error) => !(error instanceof ApiError && error.status === 404));
    this.open(() => {
      const live = this.runs.length === 0 || this.runs.some(({ run }) => run !== null && run.finished_at === null);
      this.complain(failures.length > 0 ? `not loaded: ${explain(failures[0])}` : '');
      if (failures.length > 0) this.place.status('reconnecting', 'incomplete');
      else this.place.status(live ? 'live' : 'finished', live ? 'live' : 'all ended');
      if (again) this.later(LIVE_MS, () => void this.load(missing.filter((run) => this.runs.includes(run))))();
    })();
  }

  /// Loads what the lines of these runs, and of others that have lines now, need. Returns the failures.
  private async loadLines(view: CompareState['view'], runs: readonly ComparedRun[]): Promise<unknown[]> {
    this.group();
    const due = groups.drawnRuns(this.lanes).filter((run) => !run.drawn || runs.includes(run));
    const results = await Promise.allSettled(due.map((run) => run.loadLines(view).finally(() => this.came())));
    return results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
  }

  private async refresh(): Promise<void> {
    const going = this.runs.filter(({ run }) => run?.finished_at === null);
    if (going.length === 0 || document.visibilityState !== 'visible') return;
    const results = await Promise.allSettled(going.map((run) => run.refresh(this.state.view)));
    const state = results.some(({ status }) => status === 'rejected') ? 'reconnecting' : 'live';
    this.open(() => this.place.status(state, state))();
    this.came();
  }

  /// Asks for the differences of the best validations where they may have changed.
  private async compareBests(): Promise<void> {
    const ready = groups.drawnLanes(this.lanes).map(({ runs }) => runs[0]!);
    const bests = compare.bestsOf(ready);
    if (bests === this.comparedBests) return;
    this.comparedBests = bests;
    if (bests === '') this.differences = [];
    else {
      const [baseline, ...others] = ready.map(({ id }) => id);
      const found = await getItems<Difference>(`/runs/${baseline}/comparison?with=${others.join()}`).catch(() => null);
      if (this.comparedBests !== bests) return; // asked again meanwhile
      if (found === null) this.comparedBests = ''; // the next load asks again
      this.differences = found ?? [];
    }
    this.open(() => this.redraw())();
  }

  private came(): void {
    this.redraw();
  }

  private redraw(): void {
    this.revision += 1;
    this.draw();
  }

  private complain(text: string): void {
    this.problem = text;
    this.draw();
  }

  private changed(): void {
    writeAddress(hashOf('compare', compare.compareQuery(this.state)));
    this.toolbar.update();
    this.charts.arrange(this.state.keys.map((key) => this.chartOf(key)));
    this.came();
  }

  private chartOf(key: string): ChartDefinition<ComparePage> {
    const title = titleOf(key);
    const remove = (): void => this.setKeys(this.state.keys.filter((each) => each !== key));
    return {
      ...{ id: key, title, unit: '', keys: () => [], axisFormat: tickOf(key) },
      data: ({ lanes }, view) => groups.laneLines(lanes, key, view),
      tools: h('button.chip', { title: 'remove', 'aria-label': `Remove ${title}`, onclick: remove }, '×'),
    };
  }

  private group(): void {
    const ready = this.runs.filter(({ run }) => run !== null);
    this.lanes = groups.lanesOf(ready, this.state.fold);
  }

  private drawNow(): void {
    this.group();
    void this.compareBests();
    this.body.draw();
    const { view } = this.state;
    const full = compare.fullRange(groups.drawnRuns(this.lanes), this.state.keys, view);
    this.charts.draw(view.range ?? full, full);
  }

  private offeredKeys(): string[] {
    const all = new Set([...compare.evalKeys(this.runs), ...this.runs.flatMap(({ keys }) => [...keys.keys()])]);
    return [...all].filter((key) => !this.state.keys.includes(key)).sort();
  }

  /// Loads finer data for the new range.
  private zoom(range: [number, number] | null): void {
    this.state.view.range = range;
    this.changed();
    void this.load(this.runs.filter(({ run }) => run !== null));
  }

  private setRuns(ids: readonly string[]): void {
    const present = new Map(this.runs.map((run) => [run.id, run]));
    this.state = { ...this.state, runs: ids.slice(0, MAX_RUNS), asked: Math.min(ids.length, MAX_RUNS) };
    this.runs = this.state.runs.map((id) => present.get(id) ?? this.makeRun(id));
    this.changed();
    void this.load(this.runs.filter(({ run }) => run === null));
  }

  private setKeys(keys: readonly string[]): void {
    this.state = { ...this.state, keys };
    this.changed();
    const { view } = this.state;
    const loading = groups.drawnRuns(this.lanes).map((run) => run.series.loadMissing(run.window(view)));
    void Promise.allSettled(loading).then(() => this.came());
  }

  private addRun(): void {
    const text = this.runInput.value.trim();
    const run = this.known.find(({ id, name }) => id === text || name === text);
    if (!run) return this.complain(text ? `no run is called “${text}”` : '');
    if (this.runs.length >= MAX_RUNS) return this.complain(`at most ${MAX_RUNS} runs can be compared`);
    this.runInput.value = '';
    this.complain('');
    if (!this.state.runs.includes(run.id)) this.setRuns([...this.state.runs, run.id]);
  }

  private addKey(): void {
    const key = this.keyInput.value.trim();
    if (!this.offeredKeys().includes(key)) return this.complain(key ? `no run has a metric “${key}”` : '');
    this.keyInput.value = '';
    this.complain('');
    this.setKeys([...this.state.keys, key]);
  }

  private async saveCsv(keys: readonly string[]): Promise<void> {
    const say = (text: string): void => {
      this.csvText = text;
      this.toolbar.update();
    };
    try {
      const { comparisonCsv } = await import('../data/export');
      const blob = await comparisonCsv(groups.drawnRuns(this.lanes), keys, (done, all) =>
        say(`CSV: ${done} of ${all} series`),
      );
      saveBlob(blob, keys.length === 1 ? `comparison-${keys[0]!.replace(/\W+/g, '-')}.csv` : 'comparison.csv');
    } catch (error) {
      this.complain(`no CSV: ${explain(error)}`);
    }
    say(CSV);
  }
}

export const open = (place: Place, { query }: { query: URLSearchParams }): Page => new ComparePage(place, query);
