import '../../styles/compare.css';
import { ApiError, explain, getAll } from '../../api/client';
import type { Run } from '../../api/types';
import { Chart } from '../../charts/chart';
import { zoomed } from '../../charts/chart_data';
import { onThemeChange } from '../../charts/theme';
import { h, oncePerFrame, replaceChildren, setText, Slot } from '../../lib/dom';
import { addShortcuts } from '../../lib/keys';
import { saveBlob } from '../../lib/save';
import { hashOf } from '../../lib/routes';
import { MAX_COMPARED } from '../../lib/run_view';
import { Slices } from '../../lib/slices';
import { tickOf } from '../../lib/ticks';
import type { Page, Status } from '../page';
import { followPrinting } from '../printing';
import { Toolbar } from '../run_toolbar';
import { compareLines, EVAL_MEASURES, fullRange, titleOf } from './compare_lines';
import { comparisonCsv } from './compare_csv';
import { legend, offered, tableBox } from './compare_legend';
import { compareQuery, parseCompare, type CompareState } from './compare_state';
import { bestTable, configTable } from './compare_tables';
import { ComparedRun, isEval } from './compared_run';

const LIVE_MS = 3000;
const EVAL_KEYS = EVAL_MEASURES.map((measure) => `eval:${measure}`);

/// Compares runs: curves, best values and differences between their configurations. The address reproduces the view.
export class ComparePage implements Page {
  private state: CompareState;
  private runs: ComparedRun[];
  private readonly charts = new Map<string, Chart>();
  private readonly toolbar: Toolbar;
  private readonly slots = { legend: new Slot(), best: new Slot(), config: new Slot() };
  private readonly grid = h('section', { class: 'charts', 'aria-label': 'Charts' });
  private readonly csvButton = h(
    'button',
    { type: 'button', class: 'chip', onclick: () => void this.saveCsv() },
    'comparison as CSV',
  );
  private readonly runInput = h('input', {
    type: 'search',
    list: 'all-runs',
    id: 'add-run',
    placeholder: 'add a run',
    onchange: () => this.addRun(),
  });
  private readonly keyInput = h('input', {
    type: 'search',
    list: 'all-keys',
    id: 'add-key',
    placeholder: 'add a metric',
    onchange: () => this.addKey(),
  });
  private readonly runOptions = h('datalist', { id: 'all-runs' });
  private readonly keyOptions = h('datalist', { id: 'all-keys' });
  private readonly problem = h('p', { class: 'problem', role: 'alert' });
  private readonly body = h('div', { class: 'charted' }); // what there is of runs
  private readonly keyFields = h('span', { class: 'group' });
  private readonly offer = new Slot(); // suggested runs
  private readonly slices = new Slices<Chart>();
  private known: Run[] = [];
  private revision = 0;
  private closed = false;
  private readonly stopTheme: () => void;
  private readonly stopPrinting: () => void;
  private readonly stopKeys: () => void;
  private readonly timer: ReturnType<typeof setInterval>;
  private readonly draw = oncePerFrame(() => this.drawNow());

  constructor(
    private readonly root: HTMLElement,
    query: URLSearchParams,
    private readonly status: Status,
  ) {
    document.title = 'Compare · Babelring';
    this.state = parseCompare(query);
    this.runs = this.state.runs.map((id) => this.makeRun(id));
    const { view } = this.state;
    this.toolbar = new Toolbar('', view, {
      setX: (x) => {
        view.x = x;
        view.logX &&= x !== 'wall';
        this.zoom(null);
      },
      setLogX: (log) => {
        view.logX = log;
        this.changed();
      },
      setSmoothing: (value) => {
        view.smoothing = value;
        this.changed();
      },
      scale: (factor) => this.scale(factor),
      resetZoom: () => this.zoom(null),
    });
    this.toolbar.element.lastElementChild!.replaceWith(this.csvButton);
    this.stopPrinting = followPrinting({
      begin: () => this.fit(),
      end: () => this.fit(),
      load: () => Promise.resolve(),
    });
    this.stopTheme = onThemeChange(() => this.charts.forEach((chart) => chart.redraw()));
    this.stopKeys = addShortcuts('Comparison', [
      {
        keys: ['/'],
        what: 'add a metric',
        run: (event) => {
          event.preventDefault();
          this.keyInput.focus();
        },
      },
    ]);
    this.timer = setInterval(() => void this.refresh(), LIVE_MS);
    this.mount();
    void this.start();
  }

  close(): void {
    this.closed = true;
    clearInterval(this.timer);
    this.slices.clear();
    this.stopTheme();
    this.stopPrinting();
    this.stopKeys();
    this.charts.forEach((chart) => chart.destroy());
    this.root.replaceChildren();
  }

  private fit(): void {
    this.charts.forEach((chart) => chart.fit());
  }

  private makeRun(id: string): ComparedRun {
    return new ComparedRun(id, () => new Set(this.state.keys.filter((key) => !isEval(key))));
  }

  private mount(): void {
    const same = h('input', {
      type: 'checkbox',
      onchange: () => {
        this.state = { ...this.state, same: same.checked };
        this.changed();
      },
    });
    same.checked = this.state.same;
    replaceChildren(
      this.body,
      h('div', { class: 'charted' }, this.toolbar.element, h('h2', { class: 'visually-hidden' }, 'Charts'), this.grid),
      h(
        'section',
        { class: 'card section' },
        h('h2', {}, 'Best values ', h('small', { class: 'muted' }, 'over all ranks, in the range shown')),
        tableBox('Best values', this.slots.best),
      ),
      h(
        'section',
        { class: 'card section' },
        h(
          'div',
          { class: 'list-head' },
          h('h2', {}, 'Configuration'),
          h('label', { class: 'tick' }, same, ' include equal keys'),
        ),
        tableBox('Configuration', this.slots.config),
      ),
    );
    replaceChildren(
      this.root,
      h('div', { class: 'list-head' }, h('h1', {}, 'Compare runs'), this.problem),
      h(
        'section',
        { class: 'card section', 'aria-label': 'Compared runs' },
        this.slots.legend.element,
        this.offer.element,
        h(
          'div',
          { class: 'filters' },
          h('label', { for: 'add-run', class: 'visually-hidden' }, 'Add a run'),
          this.runInput,
          this.runOptions,
          this.keyFields,
        ),
      ),
      this.body,
    );
    replaceChildren(
      this.keyFields,
      h('label', { for: 'add-key', class: 'visually-hidden' }, 'Add a metric'),
      this.keyInput,
      this.keyOptions,
    );
    this.changed();
  }

  private async start(): Promise<void> {
    this.status('loading', 'loading');
    void getAll<Run>('/runs').then(
      (runs) => {
        this.known = runs;
        replaceChildren(
          this.runOptions,
          runs.map((run) => h('option', { value: run.id }, `${run.name} · ${run.state}`)),
        );
        this.draw();
      },
      () => undefined,
    );
    await this.load(this.runs);
  }

  /// Loads runs in parallel. A run that fails to load does not hold up the others and is retried unless it does not exist.
  private async load(runs: readonly ComparedRun[]): Promise<void> {
    const results = await Promise.allSettled(runs.map((run) => run.load(this.state.view).finally(() => this.came())));
    if (this.closed) return;
    const failed = results.find((result) => result.status === 'rejected');
    setText(this.problem, failed ? `not loaded: ${explain(failed.reason)}` : '');
    this.status(
      failed ? 'reconnecting' : this.anyRuns() ? 'live' : 'finished',
      failed ? 'incomplete' : this.anyRuns() ? 'live' : 'all ended',
    );
    const missing = runs.filter((_run, at) => results[at]!.status === 'rejected');
    if (
      results.some(
        (result) =>
          result.status === 'rejected' && !(result.reason instanceof ApiError && result.reason.status === 404),
      )
    ) {
      setTimeout(() => {
        if (!this.closed) void this.load(missing.filter((run) => this.runs.includes(run)));
      }, LIVE_MS);
    }
  }

  private anyRuns(): boolean {
    return this.runs.length === 0 || this.runs.some(({ run }) => run !== null && run.finished_at === null);
  }

  private async refresh(): Promise<void> {
    const going = this.runs.filter(({ run }) => run?.finished_at === null);
    if (going.length === 0 || document.visibilityState !== 'visible') return;
    const results = await Promise.allSettled(going.map((run) => run.refresh(this.state.view)));
    if (this.closed) return;
    const away = results.some(({ status }) => status === 'rejected');
    this.status(away ? 'reconnecting' : 'live', away ? 'reconnecting' : 'live');
    this.came();
  }

  private came(): void {
    this.revision += 1;
    this.draw();
  }

  private changed(): void {
    history.replaceState(null, '', hashOf('compare', compareQuery(this.state)));
    this.toolbar.update();
    this.arrangeCharts();
    this.came();
  }

  private arrangeCharts(): void {
    for (const [key, chart] of this.charts) {
      if (this.state.keys.includes(key)) continue;
      chart.destroy();
      this.charts.delete(key);
    }
    for (const key of this.state.keys) {
      const chart = this.charts.get(key) ?? this.makeChart(key);
      this.charts.set(key, chart);
      if (!chart.mounted) chart.mount();
    }
    this.body.hidden = this.keyFields.hidden = this.runs.length === 0;
  }

  private makeChart(key: string): Chart {
    const chart = new Chart({
      id: key,
      title: titleOf(key),
      unit: '',
      axisFormat: tickOf(key),
      fileName: () => 'comparison',
      csv: async () => this.saveCsv([key]),
      onZoom: (range) => this.zoom(range),
      onLog: (log) => {
        if (log) this.state.view.log.add(key);
        else this.state.view.log.delete(key);
        this.changed();
      },
    });
    chart.element
      .querySelector('.chart-tools')
      ?.append(
        h(
          'button',
          {
            type: 'button',
            class: 'chip',
            title: 'remove',
            'aria-label': `Remove ${titleOf(key)}`,
            onclick: () => this.setKeys(this.state.keys.filter((each) => each !== key)),
          },
          '×',
        ),
      );
    this.grid.append(chart.element);
    return chart;
  }

  private drawNow(): void {
    if (this.closed) return;
    const ready = this.runs.filter(({ run }) => run !== null);
    this.slots.legend.show([this.revision], () => legend(this.runs, this.state, (ids) => this.setRuns(ids)));
    this.offer.show([this.known, this.state.runs], () =>
      offered(this.known, this.state.runs, (ids) => this.setRuns(ids)),
    );
    this.slots.best.show([this.revision], () => bestTable(ready, this.state.keys));
    this.slots.config.show([this.revision], () => configTable(ready, this.state.same));
    this.keyOptions.replaceChildren(...this.offeredKeys().map((value) => h('option', { value })));
    const { view } = this.state;
    const full = fullRange(ready, this.state.view);
    for (const [key, chart] of this.charts) {
      this.slices.add(chart, () =>
        chart.update(compareLines(this.runs, key, view), {
          waiting: this.runs.some(({ run }) => run === null),
          x: view.x,
          logX: view.logX,
          full,
          range: view.range ?? full,
          log: view.log.has(key),
        }),
      );
    }
  }

  private offeredKeys(): string[] {
    const all = new Set([...EVAL_KEYS, ...this.runs.flatMap(({ keys }) => [...keys.keys()])]);
    return [...all].filter((key) => !this.state.keys.includes(key)).sort();
  }

  private scale(factor: number): void {
    const full = fullRange(this.runs, this.state.view);
    const range = this.state.view.range ?? full;
    this.zoom(zoomed(range, (range[0] + range[1]) / 2, factor, full));
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
    void Promise.allSettled(
      this.runs.map((run) => run.series.loadMissing({ axis: run.axis(this.state.view), range: this.state.view.range })),
    ).then(() => this.came());
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

  private async saveCsv(keys: readonly string[] = this.state.keys): Promise<void> {
    const text = 'comparison as CSV';
    try {
      const blob = await comparisonCsv(this.runs, keys, (done, all) =>
        setText(this.csvButton, `CSV: ${done} of ${all} series`),
      );
      saveBlob(blob, keys.length === 1 ? `comparison-${keys[0]!.replace(/\W+/g, '-')}.csv` : 'comparison.csv');
    } catch (error) {
      setText(this.problem, `no CSV: ${explain(error)}`);
    }
    setText(this.csvButton, text);
  }
}
