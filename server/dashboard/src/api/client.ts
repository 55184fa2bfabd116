import type { Series } from '../lib/series';
import type { SeriesAnswer } from './types';

const BASE = 'api/v1';

export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

export async function getJson<T>(path: string): Promise<T> {
  const response = await fetch(`${BASE}${path}`, { headers: { Accept: 'application/json' } });
  if (response.ok) return (await response.json()) as T;
  const problem = (await response.json().catch(() => ({}))) as { detail?: string };
  throw new ApiError(response.status, problem.detail ?? `the server answered ${response.status}`);
}

/// All items of a list, page by page.
export async function getAll<T>(path: string): Promise<T[]> {
  const items: T[] = [];
  for (let cursor: string | null = ''; cursor !== null;) {
    const mark = path.includes('?') ? '&' : '?';
    const page: { items: T[]; next_cursor: string | null } =
      await getJson(`${path}${mark}limit=500${cursor ? `&cursor=${cursor}` : ''}`);
    items.push(...page.items);
    cursor = page.next_cursor;
  }
  return items;
}

export interface SeriesRange {
  x: 'step' | 'wall';
  from?: number;
  to?: number;
}

const KEYS_A_REQUEST = 32;  // the server takes 64, and 4096 bytes of address

function seriesOf(answer: SeriesAnswer): Series {
  const avg = answer.avg ?? answer.value ?? [];
  return { step: answer.step, timeMs: answer.time_ms, avg, min: answer.min ?? avg, max: answer.max ?? avg,
    total: answer.total, sampled: answer.sampled, nonFinite: answer.non_finite };
}

/// Several series over one range, by name: KEY, or KEY@RANK. A key that no step has had yet is an empty series.
export async function getSeries(run: string, names: readonly string[], range: SeriesRange): Promise<Map<string, Series>> {
  const query = new URLSearchParams({ x: range.x, points: '1200', agg: 'minmax' });
  if (range.from !== undefined) query.set('from', String(range.from));
  if (range.to !== undefined) query.set('to', String(range.to));
  const found = new Map<string, Series>();
  for (let at = 0; at < names.length; at += KEYS_A_REQUEST) {
    const asked = names.slice(at, at + KEYS_A_REQUEST);
    const { items } = await getJson<{ items: SeriesAnswer[] }>(`/runs/${run}/series?keys=${asked.join(',')}&${query}`);
    items.forEach((answer, index) => found.set(asked[index]!, seriesOf(answer)));
  }
  return found;
}

export const csvOf = (run: string, key: string): string => `${BASE}/runs/${run}/metrics/${key}?agg=raw&format=csv`;
export const fileOf = (checkpoint: string, name: string): string =>
  `${BASE}/checkpoints/${checkpoint}/files/${encodeURIComponent(name)}`;
export const runCsvOf = (run: string): string => `${BASE}/runs/${run}/metrics.csv`;
export const sumsOf = (checkpoint: string): string => `${BASE}/checkpoints/${checkpoint}/SHA256SUMS`;
