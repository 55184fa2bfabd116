import type { MetricKey, Run } from '../../api/types';
import { type Child, h } from '../../lib/dom';
import * as format from '../../lib/format';
import { DASH, formatCount, formatDuration, formatLoss, formatNames, formatOf, formatTime } from '../../lib/format';
import { localTimes, percentDone, staleForMs, timeLeft } from '../../data/runs';
import { stateBadge } from '../parts';

/// Details that are not part of a run's list item. Fetched when a column needs them; null until then.
export interface Details {
  config(run: Run): ReadonlyMap<string, string> | null;
  metrics(run: Run): ReadonlyMap<string, MetricKey> | null;
}

export type Value = string | number | null;

export interface Column {
  id: string;
  title: string;
  number: boolean;
  value: (run: Run, details: Details) => Value;
  cell: (run: Run, details: Details, atMs: number) => Child;
  format?: (value: number) => string; // formats the difference to the pinned run
  better?: 'less' | 'more';
  known?: (run: Run, details: Details) => boolean; // whether its details are loaded; absent: always
}

const text = (id: string, title: string, value: (run: Run) => string): Column => ({
  ...{ id, title, number: false, value },
  cell: (run) => value(run) || DASH,
});

const twoDigits = (value: number): string => format.formatFixed(value, 2);
const oneDigit = (value: number): string => format.formatFixed(value, 1);
const si = (value: number): string => format.formatSi(value);

function number(
  id: string,
  title: string,
  value: (run: Run) => number | null | undefined,
  format: (value: number) => string,
  better?: 'less' | 'more',
): Column {
  const cell = (run: Run): string => {
    const found = value(run) ?? null;
    return found === null ? DASH : format(found);
  };
  return { id, title, number: true, value: (run) => value(run) ?? null, format, ...(better ? { better } : {}), cell };
}

const labelsOf = (run: Run): string =>
  Object.entries(run.labels ?? {})
    .map(([key, value]) => (value ? `${key}=${value}` : key))
    .join(' ');

const time = (id: string, title: string, value: (run: Run) => string | null): Column => ({
  ...{ id, title, number: false, value: (run: Run) => value(run) ?? '' },
  cell: (run) => formatTime(value(run)),
});

/// The few words of a headline that a row has space for: the cause of an end, else what stands before the first colon.
export const shortHealth = (headline: string): string =>
  /^(?:Failed|Lost|Stopped)[^:]*: (.+)$/.exec(headline)?.[1] ?? headline.split(/[:;(]/)[0]!.trim();

const healthWord = ({ health: { level, action, headline } }: Run): HTMLElement => {
  const title = [localTimes(headline), action].filter(Boolean).join('\n');
  return h(`span.health-word.level-${level}`, { title }, localTimes(shortHealth(headline)));
};

/// Health levels from good to bad, for sorting.
const LEVELS: readonly string[] = ['good', 'unknown', 'warning', 'bad'];

function progressCell(run: Run): Child {
  const { fraction } = run.progress;
  if (fraction === null) return DASH;
  const bar = h('progress', { max: 1, value: fraction, 'aria-label': 'Training progress' });
  return [bar, ` ${percentDone(run)}`, timeLeft(run) ? h('small.left', ` ${timeLeft(run)}`) : null];
}

export const COLUMNS: readonly Column[] = [
  {
    ...{ id: 'state', title: 'State', number: false, value: (run) => `${run.state} ${run.health.headline}` },
    cell: (run, _details, atMs) => [
      stateBadge(run, atMs, Date.now()),
      run.health.level !== 'good' && staleForMs(run, atMs, Date.now()) === null && healthWord(run),
    ],
  },
  number('update', 'Update', (run) => run.update, formatCount),
  {
    ...number(
      'progress',
      'Progress',
      (run) => run.progress.fraction,
      (fraction) => format.formatPercent(fraction, 0),
    ),
    cell: progressCell,
  },
  {
    ...{ id: 'health', title: 'Health', number: false, cell: healthWord },
    value: (run) => `${LEVELS.indexOf(run.health.level)} ${run.health.headline}`,
  },
  number('epoch', 'Epoch', (run) => run.epoch, twoDigits),
  {
    ...number('eta', 'Time left', (run) => run.progress.seconds_left, formatDuration),
    cell: (run) => timeLeft(run).replace(/ left$/, '') || DASH,
  },
  number('loss', 'Loss', (run) => run.loss, formatLoss, 'less'),
  number('valid_loss', 'Validation loss', (run) => run.last_eval?.loss, formatLoss, 'less'),
  number('sacrebleu', 'Best sacreBLEU', (run) => run.best?.sacrebleu, twoDigits, 'more'),
  number('chrf', 'Best chrF', (run) => run.best?.chrf, twoDigits, 'more'),
  number('best_update', 'Best at update', (run) => run.best?.update, formatCount),
  number('tokens', 'Tokens/s', (run) => run.target_tokens_per_second, si, 'more'),
  number('step_ms', 'Step ms', (run) => run.step_ms, oneDigit, 'less'),
  number('rate', 'Learning rate', (run) => run.learning_rate, format.formatScientific),
  number('parameters', 'Parameters', (run) => run.parameters, si),
  {
    ...{ id: 'hosts', title: 'Hosts', number: false, value: (run) => run.hosts.join(' ') },
    cell: (run) => h('span', { title: run.hosts.join(', ') }, format.cutMiddle(formatNames(run.hosts), 18)),
  },
  number('ranks', 'Ranks', (run) => run.world_size, formatCount),
  number('attempt', 'Attempt', (run) => run.attempt, formatCount),
  text('labels', 'Labels', labelsOf),
  text('detail', 'Detail', (run) => run.detail),
  text('version', 'Version', (run) => run.version),
  time('started', 'Started', (run) => run.started_at),
  time('finished', 'Finished', (run) => run.finished_at),
  number('ran', 'Ran for', (run) => run.elapsed_seconds, formatDuration),
];

const BY_ID = new Map(COLUMNS.map((column) => [column.id, column]));
const nameOf = (run: Run): string => run.name || run.id;
export const NAME: Column = { id: 'name', title: 'Name', number: false, value: nameOf, cell: nameOf };

function configColumn(id: string, path: string): Column {
  const value = (run: Run, details: Details): Value => {
    const found = details.config(run)?.get(path);
    if (found === undefined) return null;
    return found.trim() !== '' && Number.isFinite(Number(found)) ? Number(found) : found;
  };
  return {
    id,
    title: path,
    number: false,
    value,
    known: (run, details) => details.config(run) !== null,
    cell: (run, details) => details.config(run)?.get(path) ?? (details.config(run) ? DASH : '…'),
  };
}

const metricColumn = (id: string, kind: 'last' | 'min' | 'max', key: string): Column => ({
  id,
  title: kind === 'last' ? key : `${key} ${kind}`,
  number: true,
  format: formatOf(key),
  known: (run, details) => details.metrics(run) !== null,
  value: (run, details) => details.metrics(run)?.get(key)?.[kind] ?? null,
  cell: (run, details) => {
    const all = details.metrics(run);
    const found = all?.get(key);
    if (!found) return all ? DASH : '…';
    return kind === 'last'
      ? formatOf(key)(found.last)
      : [formatOf(key)(found[kind]), h('small.at', ` @${formatCount(found[`${kind}_step`])}`)];
  },
});

/// The column of an id: one of COLUMNS, "config:PATH", or "last:KEY", "min:KEY", "max:KEY" of a metric; null for anything else.
export function columnOf(id: string): Column | null {
  if (id === NAME.id) return NAME;
  const known = BY_ID.get(id);
  if (known) return known;
  const [, kind, rest] = /^(config|last|min|max):(.+)$/.exec(id) ?? [];
  if (!kind || !rest) return null;
  return kind === 'config' ? configColumn(id, rest) : metricColumn(id, kind as 'last' | 'min' | 'max', rest);
}

/// Compares for sorting. Missing values come last in both directions.
export function compareValues(left: Value, right: Value, descending: boolean): number {
  if (left === null || right === null) return Number(left === null) - Number(right === null);
  const order =
    typeof left === 'number' && typeof right === 'number'
      ? left - right
      : String(left).localeCompare(String(right), 'en', { numeric: true });
  return descending ? -order : order;
}

/// The difference to the pinned run, "+0.31", and whether it is an improvement.
export function difference(column: Column, value: Value, pinned: Value): { text: string; good: boolean | null } | null {
  if (!column.format || typeof value !== 'number' || typeof pinned !== 'number' || value === pinned) return null;
  const by = value - pinned;
  const good = column.better ? by < 0 === (column.better === 'less') : null;
  return { text: `${by > 0 ? '+' : '−'}${column.format(Math.abs(by))}`, good };
}
