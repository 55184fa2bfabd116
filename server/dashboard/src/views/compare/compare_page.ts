import '../../styles/compare.css';
import { ApiError, explain, getAll } from '../../api/client';
import type { Run } from '../../api/types';
import type { ChartDefinition } from '../../charts/definitions';
import { tickOf } from '../../lib/axes';
import { h, replaceChildren, saveBlob, setText } from '../../lib/dom';
import { isEval } from '../../lib/format';
import { hashOf, MAX_COMPARED } from '../../lib/routes';
import { addShortcuts } from '../../lib/shell';
import { Life } from '../../lib/work';
import { type ChartActions, ChartGrid, followPrinting, Toolbar } from '../chart_grid';
import { labelled, options, Owner, type Page, type Place, type Status } from '../parts';
import * as compare from './compare_data';
import { ComparedRun, type CompareState, titleOf } from './compare_data';
import { bestTable, configTable, legend, offered } from './compare_tables';

const LIVE_MS = 3000;
const EVAL_KEYS = compare.EVAL_MEASURES.map((measure) => `eval:${measure}`);
const CSV = 'comparison as CSV';

/// Compares runs: curves, best values and differences between their configurations. The address reproduces the view.
class ComparePage extends Life {
  private state: CompareState;
  private runs: ComparedRun[];
  private readonly status: Status;
  private readonly charts: ChartGrid<ComparePage>;
  private readonly toolbar: Toolbar;
  private readonly parts: readonly Owner[];
  private readonly runInput = this.adder('run', 'add a run', () => this.addRun());
  private readonly keyInput = this.adder('key', 'add a metric', () => this.addKey());
  private readonly runOptions = h('datalist', { id: 'all-runs' });
  private readonly keyOptions = h('datalist', { id: 'all-keys' });
  private readonly problem = h('p.problem', { role: 'alert' });
  private readonly body = h('div.charted'); // what there is of runs
  private readonly keyFields = h('span.group');
  private csvText = CSV;
  private known: readonly Run[] = [];
  private revision = 0;
  private readonly draw = this.onFrame(() => this.drawNow());

  constructor({ root, status }: Place, query: URLSearchParams) {
    super();
    document.title = 'Compare · Babelring';
    this.status = status;
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
    this.toolbar = new Toolbar(view, actions, () => compare.fullRange(this.runs, view), csv);
    this.parts = this.makeParts();
    const fit = (): void => this.charts.fit();
    const search = (event: KeyboardEvent): void => {
      event.preventDefault();
      this.keyInput.focus();
    };
    this.atEnd(
      followPrinting({ begin: fit, end: fit, load: () => Promise.resolve() }),
      addShortcuts('Comparison', [{ keys: ['/'], what: 'add a metric', run: search }]),
      () => this.charts.close(),
      () => root.replaceChildren(),
    );
    this.every(LIVE_MS, () => void this.refresh());
    this.mount(root);
    this.start();
  }

  private adder(what: 'run' | 'key', placeholder: string, onchange: () => void): HTMLInputElement {
    return h('input', { type: 'search', list: `all-${what}s`, id: `add-${what}`, placeholder, onchange });
  }

  private makeRun(id: string): ComparedRun {
    return new ComparedRun(id, () => new Set(this.state.keys.filter((key) => !isEval(key))));
  }

  /// The legend, the runs on offer, the best values and the configurations.
  private makeParts(): Owner[] {
    const ready = (): ComparedRun[] => this.runs.filter(({ run }) => run !== null);
    const setRuns = (ids: readonly string[]): void => this.setRuns(ids);
    const inputs = (): readonly unknown[] => [this.revision];
    return [
      new Owner(() => ({ inputs, render: () => legend(this.runs, this.state, setRuns) })),
      new Owner(() => ({
        inputs: () => [this.known, this.state.runs],
        render: () => offered(this.known, this.state.runs, setRuns),
      })),
      new Owner(() => ({ inputs, render: () => h('div', bestTable(ready(), this.state.keys)) })),
      new Owner(() => ({ inputs, render: () => h('div', configTable(ready(), this.state.same)) })),
    ];
  }

  private mount(root: HTMLElement): void {
    const setSame = (event: Event): void => {
      this.state = { ...this.state, same: (event.currentTarget as HTMLInputElement).checked };
      this.changed();
    };
    const same = h('input', { type: 'checkbox', checked: this.state.same, onchange: setSame });
    const [runs, offer, best, config] = this.parts.map(({ element }) => element);
    const over = h('small.muted', 'over all ranks, in the range shown');
    const heading = h('h2.visually-hidden', 'Charts');
    const equal = h('label.tick', same, ' include equal keys');
    replaceChildren(
      this.body,
      h('div.charted', this.toolbar.element, heading, this.charts.element),
      h('section.card.section', h('h2', 'Best values ', over), best),
      h('section.card.section', h('div.list-head', h('h2', 'Configuration'), equal), config),
    );
    replaceChildren(this.keyFields, labelled('Add a metric', this.keyInput, true), this.keyOptions);
    const adding = h('div.filters', labelled('Add a run', this.runInput, true), this.runOptions, this.keyFields);
    replaceChildren(
      root,
      h('div.list-head', h('h1', 'Compare runs'), this.problem),
      h('section.card.section', { 'aria-label': 'Compared runs' }, runs, offer, adding),
      this.body,
    );
    this.changed();
  }

  private start(): void {
    this.status('loading', 'loading');
    const know = (runs: readonly Run[]): void => {
      this.known = runs;
      replaceChildren(this.runOptions, options(runs.map(({ id, name, state }) => [id, `${name} · ${state}`])));
      this.draw();
    };
    void getAll<Run>('/runs').then(know, () => undefined);
    void this.load(this.runs);
  }

  /// Loads runs in parallel. A run that fails to load does not hold up the others and is retried unless it does not exist.
  private async load(runs: readonly ComparedRun[]): Promise<void> {
    const { view } = this.state;
    const results = await Promise.allSettled(runs.map((run) => run.load(view).finally(() => this.came())));
    const failures = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
    const missing = runs.filter((_run, at) => results[at]!.status === 'rejected');
    const again = failures.some((error) => !(error instanceof ApiError && error.status === 404));
    this.open(() => {
      const live = this.runs.length === 0 || this.runs.some(({ run }) => run !== null && run.finished_at === null);
      setText(this.problem, failures.length > 0 ? `not loaded: ${explain(failures[0])}` : '');
      if (failures.length > 0) this.status('reconnecting', 'incomplete');
      else this.status(live ? 'live' : 'finished', live ? 'live' : 'all ended');
      if (again) this.later(LIVE_MS, () => void this.load(missing.filter((run) => this.runs.includes(run))))();
    })();
  }

  private async refresh(): Promise<void> {
    const going = this.runs.filter(({ run }) => run?.finished_at === null);
    if (going.length === 0 || document.visibilityState !== 'visible') return;
    const results = await Promise.allSettled(going.map((run) => run.refresh(this.state.view)));
    const state = results.some(({ status }) => status === 'rejected') ? 'reconnecting' : 'live';
    this.open(() => this.status(state, state))();
    this.came();
  }

  private came(): void {
    this.revision += 1;
    this.draw();
  }

  private changed(): void {
    history.replaceState(null, '', hashOf('compare', compare.compareQuery(this.state)));
    this.toolbar.update();
    this.charts.arrange(this.state.keys.map((key) => this.chartOf(key)));
    this.body.hidden = this.keyFields.hidden = this.runs.length === 0;
    this.came();
  }

  private chartOf(key: string): ChartDefinition<ComparePage> {
    const title = titleOf(key);
    const remove = (): void => this.setKeys(this.state.keys.filter((each) => each !== key));
    return {
      ...{ id: key, title, unit: '', keys: () => [], axisFormat: tickOf(key) },
      data: ({ runs }, view) => compare.compareLines(runs, key, view),
      tools: h('button.chip', { title: 'remove', 'aria-label': `Remove ${title}`, onclick: remove }, '×'),
    };
  }

  private drawNow(): void {
    this.parts.forEach((part) => part.draw());
    replaceChildren(
      this.keyOptions,
      this.offeredKeys().map((value) => h('option', { value })),
    );
    const { view } = this.state;
    const ready = this.runs.filter(({ run }) => run !== null);
    const full = compare.fullRange(ready, view);
    this.charts.draw(view.range ?? full, full);
  }

  private offeredKeys(): string[] {
    const all = new Set([...EVAL_KEYS, ...this.runs.flatMap(({ keys }) => [...keys.keys()])]);
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
    this.state = { ...this.state, runs: ids.slice(0, MAX_COMPARED), asked: Math.min(ids.length, MAX_COMPARED) };
    this.runs = this.state.runs.map((id) => present.get(id) ?? this.makeRun(id));
    this.changed();
    void this.load(this.runs.filter(({ run }) => run === null));
  }

  private setKeys(keys: readonly string[]): void {
    this.state = { ...this.state, keys };
    this.changed();
    const { view } = this.state;
    const loading = this.runs.map((run) => run.series.loadMissing(run.window(view)));
    void Promise.allSettled(loading).then(() => this.came());
  }

  private addRun(): void {
    const text = this.runInput.value.trim();
    const run = this.known.find(({ id, name }) => id === text || name === text);
    if (!run) return setText(this.problem, text ? `no run is called “${text}”` : '');
    if (this.runs.length >= MAX_COMPARED) return setText(this.problem, `at most ${MAX_COMPARED} runs can be compared`);
    this.runInput.value = '';
    setText(this.problem, '');
    if (!this.state.runs.includes(run.id)) this.setRuns([...this.state.runs, run.id]);
  }

  private addKey(): void {
    const key = this.keyInput.value.trim();
    if (!this.offeredKeys().includes(key)) return setText(this.problem, key ? `no run has a metric “${key}”` : '');
    this.keyInput.value = '';
    setText(this.problem, '');
    this.setKeys([...this.state.keys, key]);
  }

  private async saveCsv(keys: readonly string[]): Promise<void> {
    const say = (text: string): void => {
      this.csvText = text;
      this.toolbar.update();
    };
    try {
      const { comparisonCsv } = await import('../../data/export');
      const blob = await comparisonCsv(this.runs, keys, (done, all) => say(`CSV: ${done} of ${all} series`));
      saveBlob(blob, keys.length === 1 ? `comparison-${keys[0]!.replace(/\W+/g, '-')}.csv` : 'comparison.csv');
    } catch (error) {
      setText(this.problem, `no CSV: ${explain(error)}`);
    }
    say(CSV);
  }
}

export const open = (place: Place, { query }: { query: URLSearchParams }): Page => new ComparePage(place, query);
