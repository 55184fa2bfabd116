import '../../styles/sweep.css';
import { explain, getAll, isAbort } from '../../api/client';
import type { Run } from '../../api/types';
import { h, replaceChildren, setText, Slot, type Child } from '../../lib/dom';
import { formatCount } from '../../lib/format';
import { hashOf } from '../../lib/routes';
import {
  axesOf,
  cellsOf,
  countStates,
  defaultMetric,
  groupsOf,
  hiddenAxes,
  matching,
  meaningOfFields,
  METRICS,
  SEED,
  type Axis,
  type Cell,
  type Metric,
} from '../../lib/sweep';
import type { Page, Status } from '../page';
import { sweepChart } from './sweep_chart';
import { chosenAxes, parseSweep, sweepQuery, type SweepState } from './sweep_state';
import { byMetric, cellTable, compareHash, heatTable } from './sweep_tables';

const EVERY_MS = 5000;
const FIELDS = 'id,name,state,detail,labels,update,created_at,updated_at,last_eval,best';

/// The runs of a sweep: a heat map and a chart of a metric over two axes, as means over seeds, and a table of cells. The address reproduces the view.
export class SweepPage implements Page {
  private readonly runs = new Map<string, Run>();
  private state: SweepState;
  private newestMs = 0; // the last change of a run
  private revision = 0;
  private loading = false;
  private closed = false;
  private readonly timer: ReturnType<typeof setInterval>;
  private readonly problem = h('p', { class: 'problem', role: 'alert' });
  private readonly facts = h('p', { class: 'muted', role: 'status' });
  private readonly slots = { choices: new Slot(), heat: new Slot(), chart: new Slot(), cells: new Slot() };

  constructor(
    root: HTMLElement,
    private readonly name: string,
    query: URLSearchParams,
    private readonly status: Status,
  ) {
    document.title = `Sweep ${name} · Babelring`;
    status('loading', 'loading');
    this.state = parseSweep(query);
    this.mount(root);
    this.timer = setInterval(() => {
      if (document.visibilityState === 'visible') void this.load();
    }, EVERY_MS);
    void this.load();
  }

  close(): void {
    this.closed = true;
    clearInterval(this.timer);
  }

  private mount(root: HTMLElement): void {
    const section = (title: string, slot: Slot): HTMLElement =>
      h('section', { class: 'card section' }, h('h2', {}, title), slot.element);
    replaceChildren(
      root,
      h('div', { class: 'list-head' }, h('h1', {}, `Sweep ${this.name}`), this.problem),
      this.facts,
      h('section', { class: 'card section', 'aria-label': 'Choices' }, this.slots.choices.element),
      section('Means', this.slots.heat),
      section('Over one axis', this.slots.chart),
      section('Cells', this.slots.cells),
    );
  }

  /// Fetches all runs at first, then those that have changed.
  private async load(): Promise<void> {
    if (this.loading) return;
    this.loading = true;
    const label = encodeURIComponent(`sweep=${this.name}`);
    const since = this.newestMs > 0 ? `&updated_after=${this.newestMs - 1}` : '';
    try {
      const runs = await getAll<Run>(`/runs?label=${label}&fields=${FIELDS}${since}`);
      if (this.closed) return;
      for (const run of runs) this.take(run);
      this.status('live', 'live');
      setText(this.problem, this.runs.size === 0 ? `No run has the label sweep=${this.name}.` : '');
      this.draw();
    } catch (error) {
      if (this.closed || isAbort(error)) return;
      this.status('reconnecting', 'reconnecting');
      setText(this.problem, explain(error));
    } finally {
      this.loading = false;
    }
  }

  private take(run: Run): void {
    if (JSON.stringify(this.runs.get(run.id)) !== JSON.stringify(run)) this.revision += 1;
    this.runs.set(run.id, run);
    this.newestMs = Math.max(this.newestMs, Date.parse(run.updated_at));
  }

  private change(state: Partial<SweepState>): void {
    this.state = { ...this.state, ...state };
    const page = `sweep/${encodeURIComponent(this.name)}`;
    history.replaceState(null, '', hashOf(page, sweepQuery(this.state)));
    this.revision += 1;
    this.draw();
  }

  private draw(): void {
    const every = cellsOf(this.runs.values());
    const axes = axesOf(every);
    const metric = this.state.metric ?? defaultMetric(every);
    const cells = matching(every, this.state.fixed);
    const { x, y } = chosenAxes(this.state, axes);
    setText(
      this.facts,
      `${formatCount(every.length)} cells: ${countStates(every)}${cells.length < every.length ? `; ${formatCount(cells.length)} shown` : ''}`,
    );
    const inputs = [this.revision];
    this.slots.choices.show(inputs, () => this.choices(axes, x, y, metric, cells));
    const rows = x ? groupsOf(cells, x, y, metric, this.state.at) : [];
    const { fixed, at } = this.state;
    this.slots.heat.show(inputs, () =>
      x
        ? [
            h('p', { class: 'muted' }, meaningOfFields(axes, x, y, fixed, metric, at)),
            heatTable(x, y, rows, metric, hiddenAxes(axes, x, y, fixed)),
          ]
        : null,
    );
    // A picture is replaced as a whole: its elements are not those that a Slot patches.
    this.slots.chart.show(inputs, () =>
      h('div', { 'data-key': String(this.revision) }, x ? sweepChart(METRICS[metric], x, rows) : null),
    );
    const sorted = this.state.sort === 'metric' ? byMetric(cells, metric, this.state.at) : cells;
    this.slots.cells.show(inputs, () => cellTable(sorted, axes, metric, this.state.at));
  }

  private choice(
    label: string,
    options: readonly (readonly [value: string, text: string])[],
    chosen: string,
    set: (value: string) => void,
  ): HTMLElement {
    const select = h(
      'select',
      { 'aria-label': label, onchange: (event: Event) => set((event.currentTarget as HTMLSelectElement).value) },
      options.map(([value, text]) => h('option', { value, selected: value === chosen }, text)),
    );
    return h('label', { class: 'choice', 'data-key': label }, h('span', { class: 'muted' }, label), select);
  }

  /// The treatment of an axis of which no value is chosen.
  private withoutChoice(key: string, x: Axis | null, y: Axis | null): string {
    if (key === x?.key || key === y?.key) return 'all';
    return key === SEED ? 'mean of all' : 'at its best';
  }

  private choices(
    axes: readonly Axis[],
    x: Axis | null,
    y: Axis | null,
    metric: Metric,
    cells: readonly Cell[],
  ): Child {
    const { at, fixed, sort } = this.state;
    const keys = axes.map(({ key }) => [key, key] as const);
    const only = (key: string, value: string): void => {
      const next = new Map(fixed);
      if (value === '') next.delete(key);
      else next.set(key, value);
      this.change({ fixed: next });
    };
    return h(
      'div',
      { class: 'filters' },
      this.choice('metric', Object.entries(METRICS), metric, (value) => this.change({ metric: value as Metric })),
      this.choice(
        'of the evaluation',
        [
          ['best', 'best'],
          ['last', 'newest'],
        ],
        at,
        (value) => this.change({ at: value === 'last' ? 'last' : 'best' }),
      ),
      this.choice('columns', keys, x?.key ?? '', (value) => this.change({ x: value })),
      this.choice('rows', [['', 'none'], ...keys], y?.key ?? '', (value) => this.change({ y: value })),
      axes
        .filter(({ values }) => values.length > 1)
        .map(({ key, values }) =>
          this.choice(
            `only ${key}`,
            [['', this.withoutChoice(key, x, y)], ...values.map((value) => [value, value] as const)],
            fixed.get(key) ?? '',
            (value) => only(key, value),
          ),
        ),
      this.choice(
        'cells sorted by',
        [
          ['coordinates', 'coordinates'],
          ['metric', 'metric'],
        ],
        sort,
        (value) => this.change({ sort: value === 'metric' ? 'metric' : 'coordinates' }),
      ),
      cells.length > 1
        ? h('a', { class: 'chip', href: compareHash(byMetric(cells, metric, at)) }, 'compare the best runs')
        : null,
    );
  }
}
