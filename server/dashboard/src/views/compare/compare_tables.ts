import type { Evaluation, MetricKey, Run } from '../../api/types';
import { type Child, h } from '../../lib/dom';
import { DASH, formatCount, formatDuration, formatFixed, formatOf, isEval } from '../../lib/format';
import { hashOfRun } from '../../lib/routes';
import type { Series } from '../../lib/series';
import { badge, stateBadge, swatch, table } from '../parts';
import { betterOf, colorOf, type ComparedRun, type CompareState, cutText, titleOf } from './compare_data';

/// A run's best value and its update.
export interface Best {
  value: number;
  update: number;
}

/// The min or max of a series over all ranks. A sampled row covers several updates. The exact update is known only if the key's
/// summary, which covers one rank, has the same extreme.
function extreme(series: Series, better: 'less' | 'more', summary: MetricKey | undefined): Best | null {
  const more = better === 'more';
  const rows = (more ? series.max : series.min).flatMap((value, row): Best[] =>
    value === null ? [] : [{ value, update: series.step[row]! }],
  );
  const best = bestRow(rows, more);
  if (best && summary && best.value === (more ? summary.max : summary.min))
    best.update = more ? summary.max_step : summary.min_step;
  return best;
}

const bestRow = (rows: readonly Best[], more: boolean): Best | null =>
  rows.reduce<Best | null>((best, row) => {
    if (best === null || (more ? row.value > best.value : row.value < best.value)) return row;
    return best;
  }, null);

/// The best value of a metric over all ranks in the range shown, or the last value if neither lower nor higher is better; null
/// if the run has none.
export function bestOf(
  run: Pick<ComparedRun, 'evals' | 'keys'> & { series: { get(key: string): Series } },
  key: string,
): Best | null {
  const better = betterOf(key);
  if (isEval(key)) {
    const measure = key.slice(5) as keyof Evaluation;
    const rows = run.evals.flatMap((row): Best[] =>
      typeof row[measure] === 'number' ? [{ value: row[measure] as number, update: row.update }] : [],
    );
    return bestRow(rows, better === 'more');
  }
  const series = run.series.get(key);
  if (better) return extreme(series, better, run.keys.get(key));
  const last = series.avg.findLastIndex((value) => value !== null);
  return last < 0 ? null : { value: series.avg[last]!, update: series.step[last]! };
}

/// The index of the best value; -1 if there is none or all are equal.
export function winner(key: string, values: readonly (Best | null)[]): number {
  const better = betterOf(key);
  const known = values.filter((value) => value !== null).map(({ value }) => value);
  if (!better || new Set(known).size < 2) return -1;
  const best = better === 'more' ? Math.max(...known) : Math.min(...known);
  return values.findIndex((value) => value?.value === best);
}

const runHead = (run: ComparedRun, at: number, scope: string): HTMLTableCellElement =>
  h('th', { scope }, swatch(colorOf(at)), ' ', h('a', { href: hashOfRun(run.id) }, run.name));

function elapsed({ run }: ComparedRun): string {
  if (!run) return DASH;
  return formatDuration((Date.parse(run.finished_at ?? run.updated_at) - Date.parse(run.started_at)) / 1000);
}

/// One row per run, one column per metric: its best value with the update. Marks the best of all runs.
export function bestTable(runs: readonly ComparedRun[], keys: readonly string[]): HTMLElement {
  const columns = keys.map((key) => {
    const values = runs.map((run) => bestOf(run, key));
    const cells = values.map((value): Child => {
      return value ? [formatOf(key)(value.value), h('small.at', ` @${formatCount(value.update)}`)] : DASH;
    });
    const best = winner(key, values);
    return cells.map((cell, at): Child => [cell, best === at && badge('best')]);
  });
  const kindOf = (key: string): string => ({ less: ' (min)', more: ' (max)' })[betterOf(key)!] ?? ' (last)';
  const heads = ['Run', 'State', '#Update', '#Ran for', ...keys.map((key) => `#${titleOf(key)}${kindOf(key)}`)];
  const rows = runs.map((run, at): Child[] => [
    runHead(run, at, 'row'),
    run.run ? stateBadge(run.run, run.atMs, Date.now()) : DASH,
    formatCount(run.run?.update),
    elapsed(run),
    ...columns.map((cells) => cells[at]!),
  ]);
  return table('Best values', heads, rows);
}

export interface ConfigRow {
  path: string;
  values: (string | null)[];
  differs: boolean;
}

/// All configuration keys of the runs, differing keys first.
export function configRows(configs: readonly ReadonlyMap<string, string>[]): ConfigRow[] {
  const paths = [...new Set(configs.flatMap((config) => [...config.keys()]))].sort();
  const rows = paths.map((path): ConfigRow => {
    const values = configs.map((config) => config.get(path) ?? null);
    return { path, values, differs: values.some((value) => value !== values[0]) };
  });
  return [...rows.filter(({ differs }) => differs), ...rows.filter(({ differs }) => !differs)];
}

/// The configurations side by side. Marks values that differ from the first run.
export function configTable(runs: readonly ComparedRun[], same: boolean): HTMLElement {
  const shown = configRows(runs.map(({ config }) => config)).filter(({ differs }) => differs || same);
  const rows = shown.map(({ path, values, differs }) => {
    const cell = (value: string | null, at: number): Child => {
      if (value === null) return h('span.muted', 'not set');
      return differs && at > 0 && value !== values[0] ? h('mark.extra', value) : value;
    };
    const kind = differs ? null : 'muted';
    const cells = values.map((value, at) => h('td', { class: kind }, cell(value, at)));
    return [h('th', { scope: 'row', class: kind }, path), ...cells];
  });
  const heads = ['Key', ...runs.map((run, at) => runHead(run, at, 'col'))];
  return table('Configuration', heads, rows, [], { kind: 'config-diff', none: 'The configurations are the same.' });
}

const OFFERED = 5;

type SetRuns = (ids: readonly string[]) => void;

function legendItem(run: ComparedRun, at: number, state: CompareState, setRuns: SetRuns): HTMLElement {
  const others = state.runs.filter((each) => each !== run.id);
  const first = (): void => setRuns([run.id, ...others]);
  const best = run.run?.best?.sacrebleu ?? null;
  return h(
    'li',
    swatch(colorOf(at)),
    h('a', { href: hashOfRun(run.id) }, run.name),
    at === 0 ? h('span.best', 'baseline') : h('button.chip', { onclick: first }, 'make baseline'),
    h('span.muted', best === null ? '' : `sacreBLEU ${formatFixed(best, 2)}`),
    h('button.chip', { 'aria-label': `Remove ${run.name}`, onclick: () => setRuns(others) }, '×'),
  );
}

/// The compared runs with their colours, or how to choose some.
export function legend(runs: readonly ComparedRun[], state: CompareState, setRuns: SetRuns): HTMLElement {
  const list = h('a', { href: '#/runs' }, 'list');
  if (runs.length === 0) return h('p', 'Choose the runs to compare: tick them in the ', list, ', or add them here.');
  const cut = cutText(state.asked);
  const items = runs.map((run, at) => legendItem(run, at, state, setRuns));
  return h('div', cut ? h('p.problem', cut) : null, h('ul.run-legend', items));
}

/// Suggests the newest runs until there are two to compare.
export function offered(known: readonly Run[], compared: readonly string[], setRuns: SetRuns): Child {
  const free = known.filter(({ id, emulated }) => !emulated && !compared.includes(id)).slice(0, OFFERED);
  if (compared.length >= 2 || free.length === 0) return null;
  const add = ({ id, name }: Run): HTMLElement =>
    h('button.chip', { title: id, onclick: () => setRuns([...compared, id]) }, `+ ${name || id}`);
  return h('p.filters', h('span.muted', 'newest'), free.map(add));
}
