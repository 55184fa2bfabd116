import { METRICS, SEED, type At, type Axis, type Metric } from '../../lib/sweep';

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
    metric: metric in METRICS ? (metric as Metric) : null,
    at: query.get('at') === 'last' ? 'last' : 'best',
    x: query.get('x'),
    y: query.get('y'),
    fixed: new Map(fixed),
    sort: query.get('sort') === 'metric' ? 'metric' : 'coordinates',
  };
}

export function sweepQuery(state: SweepState): URLSearchParams {
  const query = new URLSearchParams();
  if (state.metric) query.set('metric', state.metric);
  if (state.at === 'last') query.set('at', 'last');
  if (state.x !== null) query.set('x', state.x);
  if (state.y !== null) query.set('y', state.y);
  for (const [key, value] of state.fixed) query.set(`only.${key}`, value);
  if (state.sort === 'metric') query.set('sort', 'metric');
  return query;
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
