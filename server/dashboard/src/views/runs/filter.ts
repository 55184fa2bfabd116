import type { Run } from '../../api/types';
import { compareValues, type Column, type Details } from './columns';
import type { ListState } from './list_state';

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
