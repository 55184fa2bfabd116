import '../styles/compare.css';
import * as sweep from '../data/sweep';
import { explain, getAll } from '../api/client';
import type { Run } from '../api/types';
import { type Child, COLORS, h, replaceChildren, setText, svg, swatch, tinted, valueOf } from '../lib/dom';
import { DASH, formatCount, formatSignificant } from '../lib/format';
import { hashOf, hashOfRun, MAX_RUNS, writeAddress } from '../lib/routes';
import { type Axis, type Cell, type Group, type Metric, type Row, shortKey } from '../data/sweep';
import { options, Owner, type Page, type Place, type Section, table } from './parts';

type Rows = readonly Row[];
const [WIDTH, HEIGHT] = [720, 260];
const [LEFT, RIGHT, TOP, BOTTOM] = [84, 16, 10, 34];
const TICKS = 4;
const MAX_LABELS = 12;
const MAX_ROWS = 500; // of the table of cells; the choices above it narrow it

/// The range of all means with their spreads, wider by a twentieth.
function rangeOf(rows: Rows): [number, number] {
  const ends = rows
    .flatMap(({ groups }) => groups)
    .flatMap(({ mean, spread }) => (mean === null ? [] : [mean - (spread ?? 0), mean + (spread ?? 0)]));
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const margin = (high - low || Math.abs(high) || 1) / 20;
  return [low - margin, high + margin];
}

type Scale = (value: number) => number;

function lineOf(groups: readonly Group[], color: string, x: Scale, y: Scale): SVGElement {
  const points = groups.flatMap(({ mean, spread }, at) => (mean === null ? [] : [{ at: x(at), mean, spread }]));
  const path = points.map(({ at, mean }, index) => `${index === 0 ? 'M' : 'L'}${at},${y(mean)}`).join('');
  const marks = points.map(({ at, mean, spread }): Child => {
    const bar = spread !== null && svg('line', { x1: at, x2: at, y1: y(mean - spread), y2: y(mean + spread) });
    return [bar, svg('circle', { cx: at, cy: y(mean), r: 3.5 })];
  });
  return tinted(svg(`g.sweep-line.sweep-line-${color}`, {}, svg('path', { d: path }), marks), color);
}

/// A chart of means over the values of one axis, evenly spaced, a line for each row; a vertical stroke is the standard deviation
/// over seeds. The table of the heat map says the same in text.
export function sweepChart(title: string, x: Axis, rows: Rows): HTMLElement {
  const known = rows.filter(({ groups }) => groups.some(({ mean }) => mean !== null));
  if (known.length === 0) return h('p.muted', 'no evaluation yet');
  const shown = known.slice(0, COLORS.length);
  const [low, high] = rangeOf(shown);
  const step = (WIDTH - LEFT - RIGHT) / Math.max(1, x.values.length - 1);
  const xOf = (at: number): number => (x.values.length === 1 ? (LEFT + WIDTH - RIGHT) / 2 : LEFT + at * step);
  const yOf = (value: number): number => TOP + ((high - value) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const ticks = Array.from({ length: TICKS + 1 }, (_, at) => low + ((high - low) * at) / TICKS);
  const every = Math.ceil(x.values.length / MAX_LABELS);
  const scale = ticks.map((value): Child => {
    const place = { x: LEFT - 8, y: yOf(value) + 4, 'text-anchor': 'end' };
    const line = { x1: LEFT, x2: WIDTH - RIGHT, y1: yOf(value), y2: yOf(value) };
    return [svg('line.sweep-grid', line), svg('text', place, formatSignificant(value, 3))];
  });
  const names = x.values.map(
    (value, at) => at % every === 0 && svg('text', { x: xOf(at), y: HEIGHT - 8, 'text-anchor': 'middle' }, value),
  );
  const lines = shown.map(({ groups }, at) => lineOf(groups, COLORS[at]!, xOf, yOf));
  const box = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': `${title} over ${x.key}` };
  const cut = known.length - shown.length;
  const note = `over ${shortKey(x.key)}, evenly spaced${cut > 0 ? `; ${cut} more lines are in the table` : ''}`;
  const items = shown.map(({ label }, at) => h('li', swatch(COLORS[at]!), label || 'all cells'));
  return h('div', h('ul.run-legend', items), svg('svg.sweep-chart', box, scale, names, lines), h('p.chart-note', note));
}

/// The address of a comparison of the first cells' runs.
export function compareHash(cells: readonly Cell[]): string {
  const runs = cells.slice(0, MAX_RUNS).map(({ run }) => run.id);
  return hashOf('compare', new URLSearchParams({ runs: runs.join(',') }));
}

/// "2.31 ± 0.02 (3 of 3)": mean and standard deviation over seeds, number of figures and of seeds.
function groupText({ mean, spread, count, cells }: Group): string {
  if (mean === null) return cells.length === 0 ? DASH : `${cells.length} without a value`;
  const deviation = spread === null ? '' : ` ± ${formatSignificant(spread, 2)}`;
  return `${formatSignificant(mean)}${deviation}${cells.length > 1 ? ` (${count} of ${cells.length})` : ''}`;
}

function groupLink(group: Group, hidden: readonly Axis[], best: boolean): Child {
  const { cells } = group;
  if (cells.length === 0) return DASH;
  const settings = hidden.map(({ key }) => `${shortKey(key)} ${cells[0]!.coordinates.get(key) ?? DASH}`);
  const href = cells.length === 1 ? hashOfRun(cells[0]!.run.id) : compareHash(cells);
  return [
    h('a', { href }, groupText(group), best && h('strong', ' best')),
    group.mean !== null && settings.length > 0 && h('small.sweep-hidden', settings.join(', ')),
  ];
}

/// The means over two axes as a table. A darker field is better, the best one is marked; it links to its run, or to the comparison
/// of its runs. `hidden`: axes at their best, whose values each field names.
export function heatTable(x: Axis, y: Axis | null, rows: Rows, metric: Metric, hidden: readonly Axis[]): HTMLElement {
  const all = rows.flatMap(({ groups }) => groups);
  const best = sweep.bestOf(all, metric);
  const means = all.map(({ mean }) => mean);
  const cell = (group: Group): HTMLElement => {
    const shade = sweep.shadeOf(group.mean, means, metric);
    const marks = `${shade === null ? '' : ` shade-${shade}`}${group === best ? ' sweep-best' : ''}`;
    return h('td', { class: `number${marks}` }, groupLink(group, hidden, group === best));
  };
  const heads = [y ? `${y.key} ↓  ${x.key} →` : x.key, ...x.values.map((value) => `#${value}`)];
  const body = rows.map(({ label, groups }) => [h('th', { scope: 'row' }, label || 'all'), ...groups.map(cell)]);
  return table('Heat map', heads, body, [], { kind: 'sweep-heat' });
}

/// The cells with state, coordinates and metric.
export function cellTable(cells: readonly Cell[], axes: readonly Axis[], metric: Metric, at: sweep.At): Child {
  const shown = cells.slice(0, MAX_ROWS);
  const row = (cell: Cell): Child[] => [
    h('a', { href: hashOfRun(cell.run.id) }, cell.id),
    h(`span.state.state-${cell.run.state}`, { title: cell.run.detail || null }, cell.run.state),
    ...axes.map(({ key }) => cell.coordinates.get(key) ?? DASH),
    formatCount(cell.run.update),
    formatSignificant(sweep.figureOf(cell, metric, at)),
  ];
  const keys = shown.map(({ id }) => id);
  const most = `The first ${MAX_ROWS} of ${formatCount(cells.length)} cells: choose values above.`;
  return [
    table(
      'Cells',
      ['Run', 'State', ...axes.map(({ key }) => `#${key}`), '#Update', `#${metric}`],
      shown.map(row),
      keys,
    ),
    cells.length > shown.length && h('p.muted', most),
  ];
}

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
  const evaluations: Options = Object.entries({ best: 'best', last: 'newest' });
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
      writeAddress(hashOf(`sweep/${encodeURIComponent(name)}`, sweep.sweepQuery(state)));
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
