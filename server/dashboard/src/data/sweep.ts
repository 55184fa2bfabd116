import type { Run } from '../api/types';
import { EVAL_TITLES } from '../lib/format';
import { queryOf } from '../lib/routes';
import { type Stats, statsOf } from './choice';

/// Labels of a sweep's runs beside their coordinates, as `nmt sweep submit` sets them.
const SWEEP = 'sweep';
const CELL = 'cell';
export const SEED = 'training.seed';

const METRIC_NAMES = ['excess', 'loss', 'nll', 'accuracy', 'sacrebleu', 'chrf', 'teacher_forced_bleu'] as const;
export const METRICS = Object.fromEntries(METRIC_NAMES.map((name) => [name, EVAL_TITLES[name]])) as Record<
  Metric,
  string
>;
export type Metric = (typeof METRIC_NAMES)[number];
export type At = 'best' | 'last';
export const moreIsBetter = (metric: Metric): boolean => !['excess', 'loss', 'nll'].includes(metric);
export type Coordinates = ReadonlyMap<string, string>;

/// A cell's newest run.
export type Cell = { run: Run; id: string; coordinates: ReadonlyMap<string, string> };

/// The newest run of each cell. `runs` in any order.
export function cellsOf(runs: Iterable<Run>): Cell[] {
  const newest = new Map<string, Run>();
  for (const run of runs) {
    const id = run.labels?.[CELL];
    if (id === undefined) continue;
    const known = newest.get(id);
    if (!known || run.created_at > known.created_at || (run.created_at === known.created_at && run.id > known.id))
      newest.set(id, run);
  }
  const cells = [...newest].map(([id, run]): Cell => {
    const settings = Object.entries(run.labels ?? {}).filter(([name]) => name !== SWEEP && name !== CELL);
    return { run, id, coordinates: new Map(settings.sort(([a], [b]) => (a < b ? -1 : 1))) };
  });
  const axes = axesOf(cells);
  const places = axes.map(({ values }) => new Map(values.map((value, place) => [value, place])));
  const place = ({ coordinates }: Cell, at: number): number =>
    places[at]!.get(coordinates.get(axes[at]!.key) ?? '') ?? -1;
  const order = (a: Cell, b: Cell): number => {
    const at = axes.findIndex((_, index) => place(a, index) !== place(b, index));
    return at < 0 ? 0 : place(a, at) - place(b, at);
  };
  return cells.sort(order);
}

/// `values` ascending: numbers by value, then texts.
export type Axis = { key: string; values: string[] };

/// Numbers by value, before other texts.
function compareValues(a: string, b: string): number {
  const [first, second] = [Number(a), Number(b)];
  if (!Number.isNaN(first) && !Number.isNaN(second) && first !== second) return first - second;
  if (Number.isNaN(first) !== Number.isNaN(second)) return Number.isNaN(first) ? 1 : -1;
  return a < b ? -1 : a > b ? 1 : 0;
}

/// The keys in which the cells may differ, with all their values.
export function axesOf(cells: readonly Cell[]): Axis[] {
  const values = new Map<string, Set<string>>();
  for (const { coordinates } of cells) {
    for (const [key, value] of coordinates) values.set(key, (values.get(key) ?? new Set()).add(value));
  }
  return [...values].map(([key, found]) => ({ key, values: [...found].sort(compareValues) }));
}

/// A cell's figure, of its best or newest evaluation; null before the first one.
export function figureOf({ run }: Cell, metric: Metric, at: At): number | null {
  const value = (at === 'best' ? run.best : run.last_eval)?.[metric];
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

/// The first of excess, sacrebleu and loss that a cell has.
export function defaultMetric(cells: readonly Cell[]): Metric {
  const has = (metric: Metric): boolean => cells.some((cell) => figureOf(cell, metric, 'best') !== null);
  return has('excess') ? 'excess' : has('sacrebleu') ? 'sacrebleu' : 'loss';
}

/// The cells of one configuration, which differ in the seed only, with their mean and standard deviation.
export type Group = Stats & { cells: Cell[] };

const groupOf = (cells: Cell[], metric: Metric, at: At): Group => ({
  cells,
  ...statsOf(cells.map((cell) => figureOf(cell, metric, at))),
});

/// The cells with these coordinates.
export const matching = (cells: readonly Cell[], fixed: ReadonlyMap<string, string>): Cell[] =>
  cells.filter(({ coordinates }) => [...fixed].every(([key, value]) => coordinates.get(key) === value));

/// The cells of each configuration: they differ in the seed only.
function configurationsOf(cells: readonly Cell[]): Cell[][] {
  const configurations = new Map<string, Cell[]>();
  for (const cell of cells) {
    const key = JSON.stringify([...cell.coordinates].filter(([name]) => name !== SEED));
    configurations.set(key, [...(configurations.get(key) ?? []), cell]);
  }
  return [...configurations.values()];
}

/// Whether the first mean is better; any is better than none.
const isBetter = (a: Group, b: Group, metric: Metric): boolean =>
  a.mean !== null && (b.mean === null || (moreIsBetter(metric) ? a.mean > b.mean : a.mean < b.mean));

/// The group with the best mean; null without any mean.
export const bestOf = (groups: readonly Group[], metric: Metric): Group | null =>
  groups.reduce<Group | null>(
    (best, group) => (group.mean !== null && (best === null || isBetter(group, best, metric)) ? group : best),
    null,
  );

/// The best configuration of these cells by its mean over seeds, of those with the most figures: one lucky seed does not win over
/// the mean of five.
function bestConfiguration(cells: readonly Cell[], metric: Metric, at: At): Group {
  const groups = configurationsOf(cells).map((each) => groupOf(each, metric, at));
  const most = Math.max(...groups.map(({ count }) => count));
  const complete = groups.filter(({ count }) => count === most);
  return bestOf(complete, metric) ?? groupOf([...cells], metric, at);
}

/// The axes that differ between the cells of a field: neither shown, nor chosen, nor the seed.
export const hiddenAxes = (axes: readonly Axis[], x: Axis, y: Axis | null, fixed: Coordinates): Axis[] =>
  axes.filter(
    ({ key, values }) => values.length > 1 && key !== SEED && key !== x.key && key !== y?.key && !fixed.has(key),
  );

/// "Best evaluation's sacreBLEU: mean ± standard deviation over training.seed; model.layers at its best; dropout 0.1."
export function meaningOfFields(
  axes: readonly Axis[],
  x: Axis,
  y: Axis | null,
  fixed: Coordinates,
  metric: Metric,
  at: At,
): string {
  const seeds = axes.find(({ key }) => key === SEED)?.values.length ?? 1;
  const mean = seeds > 1 && x.key !== SEED && y?.key !== SEED && !fixed.has(SEED);
  const hidden = hiddenAxes(axes, x, y, fixed).map(({ key }) => key);
  const parts = [
    `${METRICS[metric]} of the ${at === 'best' ? 'best' : 'newest'} evaluation, ${moreIsBetter(metric) ? 'more' : 'less'} is better`,
    mean ? `mean ± standard deviation over ${SEED}` : 'one run in a field',
    hidden.length === 0 ? '' : `${hidden.join(', ')} at ${hidden.length === 1 ? 'its' : 'their'} best in each field`,
    ...[...fixed].map(([key, value]) => `only ${key} ${value}`),
  ];
  return `${parts.filter((part) => part !== '').join('; ')}.`;
}

export type Row = { label: string; groups: Group[] };

/// Groups by the values of two axes: rows of `y`, or a single row without one, by columns of `x`. Of several configurations the
/// best one stands for all.
export const groupsOf = (cells: readonly Cell[], x: Axis, y: Axis | null, metric: Metric, at: At): Row[] =>
  (y?.values ?? ['']).map((label) => ({
    label,
    groups: x.values.map((value) => {
      const fixed = new Map([[x.key, value]]);
      if (y) fixed.set(y.key, label);
      return bestConfiguration(matching(cells, fixed), metric, at);
    }),
  }));

/// The shade of a value between the worst (0) and the best (4) of `values`; null without a value.
export function shadeOf(value: number | null, values: readonly (number | null)[], metric: Metric): number | null {
  if (value === null) return null;
  const known = values.filter((each) => each !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  if (high === low) return 2;
  const share = (value - low) / (high - low);
  return Math.min(4, Math.floor((moreIsBetter(metric) ? share : 1 - share) * 5));
}

/// "9 succeeded, 2 running, 1 failed".
export function countStates(cells: readonly Cell[]): string {
  const counts = new Map<string, number>();
  for (const { run } of cells) counts.set(run.state, (counts.get(run.state) ?? 0) + 1);
  const sorted = [...counts].sort(([, a], [, b]) => b - a);
  return sorted.map(([state, count]) => `${count} ${state}`).join(', ');
}

/// The last part of a key, as a short name: "width" of "model.width".
export const shortKey = (key: string): string => key.slice(key.lastIndexOf('.') + 1);

/// The state of the page, as stored in its address.
export interface SweepState {
  metric: Metric | null; // null: the page chooses
  at: At;
  x: string | null; // key of the columns; null: the page chooses
  y: string | null; // key of the rows; '': none
  fixed: ReadonlyMap<string, string>; // coordinates that all shown cells have
  sort: 'coordinates' | 'metric';
}

export function parseSweep(query: URLSearchParams): SweepState {
  const metric = query.get('metric') ?? '';
  const fixed = [...query].flatMap(([name, value]): [string, string][] =>
    name.startsWith('only.') ? [[name.slice(5), value]] : [],
  );
  return {
    ...{ metric: metric in METRICS ? (metric as Metric) : null, x: query.get('x'), y: query.get('y') },
    at: query.get('at') === 'last' ? 'last' : 'best',
    fixed: new Map(fixed),
    sort: query.get('sort') === 'metric' ? 'metric' : 'coordinates',
  };
}

export function sweepQuery({ metric, at, x, y, fixed, sort }: SweepState): URLSearchParams {
  const only = [...fixed].map(([key, value]): [string, string] => [`only.${key}`, value]);
  const axes = Object.entries({ x, y }).filter((entry): entry is [string, string] => entry[1] !== null);
  const front = queryOf({ metric, at: at === 'last' && at });
  return new URLSearchParams([...front, ...axes, ...only, ...queryOf({ sort: sort === 'metric' && sort })]);
}

/// The axes of columns and rows: those that the state names, otherwise the first two with several values. The seed is chosen last,
/// because groups take their mean over it.
export function chosenAxes(state: SweepState, axes: readonly Axis[]): { x: Axis | null; y: Axis | null } {
  const several = axes.filter(({ values }) => values.length > 1);
  const offered = [...several.filter(({ key }) => key !== SEED), ...several.filter(({ key }) => key === SEED), ...axes];
  const named = (key: string | null): Axis | undefined => axes.find((axis) => axis.key === key);
  const x = named(state.x) ?? offered.find(({ key }) => key !== state.y) ?? null;
  if (state.y === '') return { x, y: null };
  const others = several.filter(({ key }) => key !== x?.key && key !== SEED);
  const y = state.y === x?.key ? null : (named(state.y) ?? others[0] ?? null);
  return { x, y };
}

/// Orders cells by the metric, the best first, those without a value last.
export function byMetric(cells: readonly Cell[], metric: Metric, at: At): Cell[] {
  const sign = moreIsBetter(metric) ? -1 : 1;
  const key = (cell: Cell): number => {
    const value = figureOf(cell, metric, at);
    return value === null ? Infinity : sign * value;
  };
  return cells.toSorted((a, b) => (key(a) === key(b) ? 0 : key(a) - key(b)));
}
