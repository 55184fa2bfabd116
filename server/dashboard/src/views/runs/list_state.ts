import type { Run } from '../../api/types';
import { type Column, compareValues, type Details } from './columns';

/// The view of the list. Stored in the address; sort order, columns and baseline also in this browser.
export interface ListState {
  text: string;
  states: readonly string[]; // none: all
  label: string; // KEY or KEY=VALUE; '' for all
  archived: boolean; // includes archived runs
  sort: { column: string; descending: boolean };
  columns: readonly string[]; // ids, in order
  pinned: string | null; // the run that others are compared with
}

export const DEFAULT_COLUMNS: readonly string[] = [
  'state',
  'progress',
  'update',
  'loss',
  'sacrebleu',
  'tokens',
  'hosts',
  'started',
];

const KEY = 'babelring.list';
const HABITS = ['sort', 'cols', 'pin'];

export function defaultListState(): ListState {
  return {
    text: '',
    states: [],
    label: '',
    archived: false,
    sort: { column: 'started', descending: true },
    columns: DEFAULT_COLUMNS,
    pinned: null,
  };
}

const list = (text: string | null): string[] => (text ?? '').split(',').filter(Boolean);

export function parseListState(query: URLSearchParams): ListState {
  const usual = defaultListState();
  const sort = query.get('sort') ?? '';
  const columns = list(query.get('cols'));
  return {
    text: query.get('q') ?? '',
    states: list(query.get('state')),
    label: query.get('label') ?? '',
    archived: query.get('archived') === '1',
    sort: sort ? { column: sort.replace(/^-/, ''), descending: sort.startsWith('-') } : usual.sort,
    columns: columns.length > 0 ? columns : usual.columns,
    pinned: query.get('pin'),
  };
}

/// The query with everything that differs from the default.
export function listQuery(state: ListState): URLSearchParams {
  const usual = defaultListState();
  const query = new URLSearchParams();
  if (state.text) query.set('q', state.text);
  if (state.states.length > 0) query.set('state', state.states.join(','));
  if (state.label) query.set('label', state.label);
  if (state.archived) query.set('archived', '1');
  if (state.sort.column !== usual.sort.column || state.sort.descending !== usual.sort.descending) {
    query.set('sort', `${state.sort.descending ? '-' : ''}${state.sort.column}`);
  }
  if (state.columns.join() !== usual.columns.join()) query.set('cols', state.columns.join(','));
  if (state.pinned) query.set('pin', state.pinned);
  return query;
}

/// The query to start with: that of the address, or, if it is empty, the one stored in this browser.
export function startingQuery(query: URLSearchParams): URLSearchParams {
  if (query.size > 0) return query;
  try {
    return new URLSearchParams(localStorage.getItem(KEY) ?? '');
  } catch {
    return query;
  }
}

export function keepHabits(query: URLSearchParams): void {
  const kept = new URLSearchParams([...query].filter(([name]) => HABITS.includes(name)));
  try {
    localStorage.setItem(KEY, kept.toString());
  } catch {
    // without storage the next visit starts with the default
  }
}

const words = (text: string): string[] => text.toLowerCase().split(/\s+/).filter(Boolean);

/// The text that a search matches: name, id, state, detail, hosts and labels.
function searchable(run: Run): string {
  const labels = Object.entries(run.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return [run.name, run.id, run.state, run.detail, ...run.hosts, ...labels].join(' ').toLowerCase();
}

function hasLabel(run: Run, wanted: string): boolean {
  const [key = '', value] = wanted.split('=');
  const found = run.labels?.[key];
  return found !== undefined && (value === undefined || found === value);
}

export function matches(run: Run, state: ListState): boolean {
  if (run.archived && !state.archived) return false;
  if (state.states.length > 0 && !state.states.includes(run.state)) return false;
  if (state.label && !hasLabel(run, state.label)) return false;
  const text = searchable(run);
  return words(state.text).every((word) => text.includes(word));
}

/// The filtered and sorted runs. The pinned run comes first and ignores the filters.
export function arrange(runs: Iterable<Run>, state: ListState, sortBy: Column, details: Details): Run[] {
  const found = [...runs]
    .filter((run) => run.id === state.pinned || matches(run, state))
    .map((run) => ({ run, value: sortBy.value(run, details), first: run.id === state.pinned }));
  found.sort(
    (a, b) =>
      Number(b.first) - Number(a.first) ||
      compareValues(a.value, b.value, state.sort.descending) ||
      (a.run.created_at < b.run.created_at ? 1 : -1),
  );
  return found.map(({ run }) => run);
}

/// All labels of the runs as KEY=VALUE, for the filter's suggestions.
export function allLabels(runs: Iterable<Run>): string[] {
  const found = new Set<string>();
  for (const run of runs)
    for (const [key, value] of Object.entries(run.labels ?? {})) found.add(value ? `${key}=${value}` : key);
  return [...found].sort();
}
