import '../../styles/compare.css';
import { explain, getAll } from '../../api/client';
import type { Run } from '../../api/types';
import { type Child, h, replaceChildren, setText, valueOf } from '../../lib/dom';
import { formatCount } from '../../lib/format';
import { hashOf } from '../../lib/routes';
import * as sweep from '../../lib/sweep';
import { options, Owner, type Page, type Place, type Section } from '../parts';
import { cellTable, compareHash, heatTable, sweepChart } from './sweep_tables';

const EVERY_MS = 5000;
const FIELDS = 'id,name,state,detail,labels,update,created_at,updated_at,last_eval,best';

type Options = readonly (readonly [value: string, text: string])[];

function choice(label: string, items: Options, chosen: string, set: (value: string) => void): HTMLElement {
  const onchange = (event: Event): void => set(valueOf(event));
  const select = h('select', { 'aria-label': label, onchange }, options(items, chosen));
  return h('label.choice', { 'data-key': label }, h('span.muted', label), select);
}

/// The shown part of the runs.
interface Shown {
  state: sweep.SweepState;
  axes: sweep.Axis[];
  x: sweep.Axis | null;
  y: sweep.Axis | null;
  metric: sweep.Metric;
  cells: sweep.Cell[];
}

function choicesOf(
  { state, axes, x, y, metric, cells }: Shown,
  change: (part: Partial<sweep.SweepState>) => void,
): Child {
  const { at, fixed, sort } = state;
  const keys = axes.map(({ key }) => [key, key] as const);
  const only = (key: string, value: string): void => {
    const next = new Map(fixed);
    if (value === '') next.delete(key);
    else next.set(key, value);
    change({ fixed: next });
  };
  const withoutChoice = (key: string): string => {
    if (key === x?.key || key === y?.key) return 'all';
    return key === sweep.SEED ? 'mean of all' : 'at its best';
  };
  const onlyOne = ({ key, values }: sweep.Axis): Child => {
    const items: Options = [['', withoutChoice(key)], ...values.map((value) => [value, value] as const)];
    return values.length > 1 && choice(`only ${key}`, items, fixed.get(key) ?? '', (value) => only(key, value));
  };
  const evaluations: Options = [['best', 'best'], ['last', 'newest']]; // prettier-ignore
  const orders: Options = ['coordinates', 'metric'].map((name) => [name, name]);
  const best = compareHash(sweep.byMetric(cells, metric, at));
  return h(
    'div.filters',
    choice('metric', Object.entries(sweep.METRICS), metric, (value) => change({ metric: value as sweep.Metric })),
    choice('of the evaluation', evaluations, at, (value) => change({ at: value as sweep.At })),
    choice('columns', keys, x?.key ?? '', (value) => change({ x: value })),
    choice('rows', [['', 'none'], ...keys], y?.key ?? '', (value) => change({ y: value })),
    axes.map(onlyOne),
    choice('cells sorted by', orders, sort, (value) => change({ sort: value as 'coordinates' | 'metric' })),
    cells.length > 1 && h('a.chip', { href: best }, 'compare the best runs'),
  );
}

function sectionsOf({ state, axes, x, y, metric, cells }: Shown, revision: number): Child {
  const { at, fixed, sort } = state;
  const rows = x ? sweep.groupsOf(cells, x, y, metric, at) : [];
  const sorted = sort === 'metric' ? sweep.byMetric(cells, metric, at) : cells;
  const section = (title: string, ...children: Child[]): HTMLElement =>
    h('section.card.section', h('h2', title), h('div', children));
  // A picture is replaced as a whole.
  const picture = h('div', { 'data-key': revision }, x && sweepChart(sweep.METRICS[metric], x, rows));
  const meaning = x && h('p.muted', sweep.meaningOfFields(axes, x, y, fixed, metric, at));
  return [
    section('Means', meaning, x && heatTable(x, y, rows, metric, sweep.hiddenAxes(axes, x, y, fixed))),
    section('Over one axis', picture),
    section('Cells', cellTable(sorted, axes, metric, at)),
  ];
}

/// The runs of a sweep: a heat map and a chart of a metric over two axes, as means over seeds, and a table of cells. The address reproduces the view.
export function open({ root, status }: Place, { name, query }: { name: string; query: URLSearchParams }): Page {
  const runs = new Map<string, Run>();
  const problem = h('p.problem', { role: 'alert' });
  let state = sweep.parseSweep(query);
  let newestMs = 0; // the last change of a run
  let revision = 0;
  const take = (run: Run): void => {
    if (JSON.stringify(runs.get(run.id)) !== JSON.stringify(run)) revision += 1;
    runs.set(run.id, run);
    newestMs = Math.max(newestMs, Date.parse(run.updated_at));
  };
  const make = (owner: Owner): Section => {
    const change = (part: Partial<sweep.SweepState>): void => {
      state = { ...state, ...part };
      history.replaceState(null, '', hashOf(`sweep/${encodeURIComponent(name)}`, sweep.sweepQuery(state)));
      revision += 1;
      owner.draw();
    };
    return {
      /// Fetches all runs at first, then those that have changed.
      load: async () => {
        const since = newestMs > 0 ? `&updated_after=${newestMs - 1}` : '';
        const label = encodeURIComponent(`sweep=${name}`);
        (await getAll<Run>(`/runs?label=${label}&fields=${FIELDS}${since}`)).forEach(take);
        owner.open(() => status('live', 'live'))();
        setText(problem, runs.size === 0 ? `No run has the label sweep=${name}.` : '');
      },
      failed: (error) => {
        status('reconnecting', 'reconnecting');
        setText(problem, explain(error));
      },
      inputs: () => [revision, runs.size],
      render: () => {
        const every = sweep.cellsOf(runs.values());
        const axes = sweep.axesOf(every);
        const cells = sweep.matching(every, state.fixed);
        const metric = state.metric ?? sweep.defaultMetric(every);
        const shown: Shown = { state, axes, metric, cells, ...sweep.chosenAxes(state, axes) };
        const part = cells.length < every.length ? `; ${formatCount(cells.length)} shown` : '';
        const facts = `${formatCount(every.length)} cells: ${sweep.countStates(every)}${part}`;
        return [
          h('p.muted', { role: 'status' }, facts),
          h('section.card.section', { 'aria-label': 'Choices' }, h('div', choicesOf(shown, change))),
          sectionsOf(shown, revision),
        ];
      },
    };
  };
  const owner = new Owner(make, 'div.charted');
  document.title = `Sweep ${name} · Babelring`;
  status('loading', 'loading');
  replaceChildren(root, h('div.list-head', h('h1', `Sweep ${name}`), problem), owner.element);
  owner.every(EVERY_MS, () => document.visibilityState === 'visible' && owner.load());
  owner.load();
  return owner;
}
