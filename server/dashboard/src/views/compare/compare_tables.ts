import type { Evaluation, MetricKey } from '../../api/types';
import { h, type Child } from '../../lib/dom';
import { DASH, formatCount, formatDuration, formatFixed } from '../../lib/format';
import type { Series } from '../../lib/series';
import { hashOfRun } from '../../lib/routes';
import { stateBadge } from '../run_header';
import { badge } from '../tables';
import { formatOf } from '../../lib/metric_format';
import { betterOf, colorOf, titleOf } from './compare_lines';
import { isEval, type ComparedRun } from './compared_run';

/// A run's best value and its update.
export interface Best {
  value: number;
  update: number;
}

/// The min or max of a series over all ranks. A sampled row covers several updates. The exact update is known only if the key's
/// summary, which covers one rank, has the same extreme.
function extreme(series: Series, better: 'less' | 'more', summary: MetricKey | undefined): Best | null {
  const column = better === 'more' ? series.max : series.min;
  let found: Best | null = null;
  column.forEach((value, row) => {
    if (value !== null && (!found || (better === 'more' ? value > found.value : value < found.value)))
      found = { value, update: series.step[row]! };
  });
  const best = found as Best | null;
  if (best && summary && best.value === (better === 'more' ? summary.max : summary.min))
    best.update = better === 'more' ? summary.max_step : summary.min_step;
  return best;
}

/// The best value of a metric over all ranks in the range shown, or the last value if neither lower nor higher is better; null
/// if the run has none.
export function bestOf(
  run: Pick<ComparedRun, 'evals' | 'keys'> & { series: { get(key: string): Series } },
  key: string,
): Best | null {
  const better = betterOf(key);
  if (isEval(key)) {
    const measure = key.slice(5) as keyof Evaluation;
    const rows = run.evals.flatMap((row) =>
      typeof row[measure] === 'number' ? [{ value: row[measure] as number, update: row.update }] : [],
    );
    if (rows.length === 0) return null;
    return rows.reduce((best, row) =>
      (better === 'more' ? row.value > best.value : row.value < best.value) ? row : best,
    );
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

const runHead = (run: ComparedRun, at: number, scope: string): HTMLElement =>
  h(
    'th',
    { scope },
    h('span', { class: `swatch swatch-${colorOf(at)}`, 'aria-hidden': 'true' }),
    ' ',
    h('a', { href: hashOfRun(run.id) }, run.name),
  );

function elapsed(run: ComparedRun): string {
  if (!run.run) return DASH;
  return formatDuration(
    (Date.parse(run.run.finished_at ?? run.run.updated_at) - Date.parse(run.run.started_at)) / 1000,
  );
}

/// One row per run, one column per metric: its best value with the update. Marks the best of all runs.
export function bestTable(runs: readonly ComparedRun[], keys: readonly string[]): HTMLElement {
  const columns = keys.map((key) => {
    const values = runs.map((run) => bestOf(run, key));
    return { key, values, best: winner(key, values) };
  });
  const cell = ({ key, values, best }: (typeof columns)[number], at: number): HTMLElement => {
    const value = values[at];
    const content: Child = value
      ? [formatOf(key)(value.value), h('small', { class: 'at' }, ` @${formatCount(value.update)}`)]
      : DASH;
    return h('td', { class: 'number' }, content, best === at ? badge('best') : null);
  };
  const kind = { less: ' (min)', more: ' (max)' } as const;
  return h(
    'table',
    {},
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        h('th', { scope: 'col' }, 'Run'),
        h('th', { scope: 'col' }, 'State'),
        h('th', { scope: 'col', class: 'number' }, 'Update'),
        h('th', { scope: 'col', class: 'number' }, 'Ran for'),
        keys.map((key) => {
          const better = betterOf(key);
          return h('th', { scope: 'col', class: 'number' }, titleOf(key), better ? kind[better] : ' (last)');
        }),
      ),
    ),
    h(
      'tbody',
      {},
      runs.map((run, at) =>
        h(
          'tr',
          {},
          runHead(run, at, 'row'),
          h('td', {}, run.run ? stateBadge(run.run, run.atMs, Date.now()) : DASH),
          h('td', { class: 'number' }, formatCount(run.run?.update)),
          h('td', { class: 'number' }, elapsed(run)),
          columns.map((column) => cell(column, at)),
        ),
      ),
    ),
  );
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
  const rows = configRows(runs.map(({ config }) => config)).filter(({ differs }) => differs || same);
  return h(
    'table',
    { class: 'config-diff' },
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        h('th', { scope: 'col' }, 'Key'),
        runs.map((run, at) => runHead(run, at, 'col')),
      ),
    ),
    h(
      'tbody',
      {},
      rows.length > 0
        ? rows.map(({ path, values, differs }) =>
            h(
              'tr',
              { class: differs ? null : 'muted' },
              h('th', { scope: 'row' }, path),
              values.map((value, at) =>
                h(
                  'td',
                  {},
                  value === null
                    ? h('span', { class: 'muted' }, 'not set')
                    : differs && at > 0 && value !== values[0]
                      ? h('mark', { class: 'extra' }, value)
                      : value,
                ),
              ),
            ),
          )
        : h('tr', {}, h('td', { colspan: runs.length + 1, class: 'muted' }, 'The configurations are the same.')),
    ),
  );
}

export const shortFigure = (run: ComparedRun): string =>
  run.run?.best?.sacrebleu === null || run.run?.best?.sacrebleu === undefined
    ? ''
    : `sacreBLEU ${formatFixed(run.run.best.sacrebleu, 2)}`;
