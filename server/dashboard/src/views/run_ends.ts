import { getItems } from '../api/client';
import type { End } from '../api/types';
import { localTimes } from '../data/runs';
import { type Child, h, svg } from '../lib/dom';
import { DASH, formatBytes, formatClock, formatCount, formatFixed } from '../lib/format';
import { table } from './parts';

export const ENDED_BADLY: ReadonlySet<string> = new Set(['failed', 'lost']);

const [WIDTH, HEIGHT] = [160, 26];
const MINUTE_S = 60;

export const endsOf = (run: string): Promise<readonly End[]> => getItems<End>(`/runs/${run}/ends`);

type Series = readonly (number | null)[];

/// The points of a line over the last minute, which ends at the right; from 0 at the bottom to `full` at the top.
export function pointsOf(seconds: Series, values: Series, full: number): string {
  const x = (second: number): number => (WIDTH * (MINUTE_S + second)) / MINUTE_S;
  const y = (value: number): number => 1 + (HEIGHT - 2) * (1 - Math.min(1, value / Math.max(full, Number.MIN_VALUE)));
  return values
    .flatMap((value, at) => (value === null ? [] : `${x(seconds[at] ?? 0).toFixed(1)},${y(value).toFixed(1)}`))
    .join(' ');
}

/// The row of one series: its line, its newest value and its range.
function rowOf(label: string, seconds: Series, values: Series, full: number, form: (value: number) => string): Child[] {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return [label, '', DASH, DASH];
  const range = `${form(Math.min(...known))} – ${form(Math.max(...known))}`;
  const line = svg('polyline', { points: pointsOf(seconds, values, full), fill: 'none', stroke: 'currentColor' });
  const box = { width: WIDTH, height: HEIGHT, role: 'img', 'aria-label': `${label} in the last minute: ${range}` };
  return [label, svg('svg', box, line), form(known.at(-1)!), range];
}

function hostRows({ host, seconds, memory_limit_bytes, ...series }: End['hosts'][number]): Child[][] {
  const { memory_left_bytes, load, temperature_celsius, processors } = series;
  const limit = ` of ${formatBytes(memory_limit_bytes)}`;
  const rows = [
    rowOf(`${host}: memory left${limit}`, seconds, memory_left_bytes, memory_limit_bytes, formatBytes),
    rowOf(`${host}: load`, seconds, load, Math.max(processors, ...load), (value) => formatFixed(value, 2)),
  ];
  const warmth = (value: number): string => `${formatFixed(value, 0)} °C`;
  if (temperature_celsius) rows.push(rowOf(`${host}: temperature`, seconds, temperature_celsius, 100, warmth));
  return rows;
}

const rankRow = ({ rank, host, seconds, resident_bytes }: End['ranks'][number]): Child[] =>
  rowOf(`rank ${rank} on ${host}: memory`, seconds, resident_bytes, Math.max(...resident_bytes), formatBytes);

/// An end with its last minute, folded.
export function endItem(end: End, open = false): HTMLElement {
  const { attempt, cause, ended_at, hosts, log, ranks, ranks_left_out, sampled_until, summary } = end;
  const title = `Attempt ${attempt}, the last minute before ${formatClock(Date.parse(sampled_until))}`;
  const why = cause || (ended_at ? '' : 'its ranks fell silent');
  const lines = log.map(
    ({ level, rank, text, time }) => `${formatClock(Date.parse(time ?? ''))} rank ${rank} ${level}: ${text}`,
  );
  return h(
    'details',
    { open, 'data-key': String(attempt) },
    h('summary', h('b', title), why && `: ${localTimes(why)}`),
    h('p', summary),
    table(
      title,
      ['Measured', 'Last minute', '#At the end', '#Range'],
      [...hosts.flatMap(hostRows), ...ranks.map(rankRow)],
    ),
    ranks_left_out > 0 && h('p.muted', `${formatCount(ranks_left_out)} more ranks are left out.`),
    lines.length > 0 && h('pre', { tabindex: 0, 'aria-label': 'Last lines of the log' }, lines.join('\n')),
  );
}
