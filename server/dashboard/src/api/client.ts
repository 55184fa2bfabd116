import type { Series } from '../lib/series';
import { ApiError } from './problem';
import { BASE, getJson } from './request';
import type { SeriesAnswer } from './types';

export { ApiError, explain } from './problem';
export { getJson, getTagged, isAbort, sendJson } from './request';

interface ListPage<T> {
  items: T[];
  next_cursor: string | null;
}

const addQuery = (path: string, query: string): string => `${path}${path.includes('?') ? '&' : '?'}${query}`;

/// The pages of a list.
export async function* pages<T>(path: string, limit = 500): AsyncGenerator<T[]> {
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: ListPage<T> = await getJson(
      addQuery(path, `limit=${limit}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`),
    );
    yield page.items;
    cursor = page.next_cursor;
  }
}

/// All items of a list.
export async function getAll<T>(path: string): Promise<T[]> {
  const items: T[] = [];
  for await (const page of pages<T>(path)) items.push(...page);
  return items;
}

export interface SeriesRange {
  x: 'step' | 'wall';
  from?: number;
  to?: number;
  points?: number; // max rows per series
}

const MIN_ROWS = 16; // min rows requested from a series that costs too much
const KEYS_A_REQUEST = 32; // the server allows 64 keys and 4096 bytes of address

function seriesOf(answer: SeriesAnswer): Series {
  const avg = answer.avg ?? answer.value ?? [];
  return {
    step: answer.step,
    timeMs: answer.time_ms,
    avg,
    min: answer.min ?? avg,
    max: answer.max ?? avg,
    total: answer.total,
    sampled: answer.sampled,
    nonFinite: answer.non_finite,
  };
}

const tooExpensive = (error: unknown): boolean => error instanceof ApiError && error.code === 'query_too_expensive';

/// If the server refuses the query's cost, splits the names in two halves, or quarters the rows of a single name.
async function askSeries(
  run: string,
  names: readonly string[],
  range: SeriesRange,
  points: number,
  found: Map<string, Series>,
): Promise<void> {
  const query = new URLSearchParams({ x: range.x, points: String(points), agg: 'minmax' });
  if (range.from !== undefined) query.set('from', String(range.from));
  if (range.to !== undefined) query.set('to', String(range.to));
  try {
    const { items } = await getJson<{ items: SeriesAnswer[] }>(`/runs/${run}/series?keys=${names.join(',')}&${query}`);
    items.forEach((answer, index) => found.set(names[index]!, seriesOf(answer)));
  } catch (error) {
    if (!tooExpensive(error) || (names.length === 1 && points <= MIN_ROWS)) throw error;
    const half = Math.ceil(names.length / 2);
    if (names.length === 1) return askSeries(run, names, range, Math.max(MIN_ROWS, Math.floor(points / 4)), found);
    await askSeries(run, names.slice(0, half), range, points, found);
    await askSeries(run, names.slice(half), range, points, found);
  }
}

/// Several series over one range, by name: KEY, or KEY@RANK. A key that no step has reported yet gives an empty series.
export async function getSeries(
  run: string,
  names: readonly string[],
  range: SeriesRange,
): Promise<Map<string, Series>> {
  const found = new Map<string, Series>();
  const distinct = [...new Set(names)]; // the server returns each name once
  for (let at = 0; at < distinct.length; at += KEYS_A_REQUEST) {
    await askSeries(run, distinct.slice(at, at + KEYS_A_REQUEST), range, range.points ?? 1200, found);
  }
  return found;
}

export const fileOf = (checkpoint: string, name: string): string =>
  `${BASE}/checkpoints/${checkpoint}/files/${encodeURIComponent(name)}`;
export const runCsvOf = (run: string): string => `${BASE}/runs/${run}/metrics.csv`;
export const sumsOf = (checkpoint: string): string => `${BASE}/checkpoints/${checkpoint}/SHA256SUMS`;
