import { saveBlob } from '../lib/dom';
import type { Series } from '../lib/series';
import { authorization, unauthorized } from './session';
import type { SeriesAnswer, TokenSelf } from './types';

/// The body of an error response: application/problem+json (RFC 9457).
export type Problem = { title?: string; detail?: string; code?: string; instance?: string; errors?: ProblemPlace[] };

/// One error in a request's body. `line` and `column` refer to the text of a configuration.
export type ProblemPlace = { pointer?: string; detail: string; line?: number; column?: number };

/// A failed request, with a one-line explanation. `status` is 0 if there was no response.
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code = '',
    readonly errors: readonly ProblemPlace[] = [],
    readonly retryAfterMs: number | null = null,
  ) {
    super(message);
  }
}

const MEANINGS: Record<number, string> = {
  401: 'the server requires a token',
  403: 'this token lacks the required scope',
  404: 'not found',
  409: 'not possible in the current state',
  412: 'someone else has changed it in the meantime',
  413: 'too large',
  429: 'too many requests',
  503: 'the server is busy',
  507: "the server's disk is full",
};

/// Parses Retry-After, in seconds or as a date, into ms from `nowMs`; null if absent or malformed.
export function retryAfterMs(header: string | null, nowMs: number): number | null {
  if (header === null) return null;
  if (/^\d+$/.test(header)) return Number(header) * 1000;
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, date - nowMs);
}

export async function problemOf(response: Response): Promise<ApiError> {
  const { status, headers } = response;
  const { detail, title, code = '', errors = [] } = (await response.json().catch(() => ({}))) as Problem;
  const message = detail || title || MEANINGS[status] || `the server answered ${status}`;
  return new ApiError(status, message, code, errors, retryAfterMs(headers.get('Retry-After'), Date.now()));
}

/// A one-line message for any thrown value.
export function explain(error: unknown): string {
  if (error instanceof ApiError) return error.status === 0 ? error.message : `${error.message} (${error.status})`;
  return error instanceof Error ? error.message : String(error);
}

/// A sentence about a change: `done`, or that it failed and why.
export const outcome = (sent: Promise<unknown>, done: string, failed: string): Promise<string> =>
  sent.then(
    () => done,
    (error: unknown) => `${failed}: ${explain(error)}`,
  );

/// Whether the server answers, as observed by the page's requests. `awaySinceMs`: time of the first unanswered one, null while they
/// are answered; `answeredAtMs`: time of the last response, null: never.
export type Connection = { awaySinceMs: number | null; answeredAtMs: number | null };

let connection: Connection = { awaySinceMs: null, answeredAtMs: null };
let listener: (connection: Connection) => void = () => undefined;

function change(next: Connection): void {
  const before = connection;
  connection = next;
  if (next.awaySinceMs !== before.awaySinceMs) listener(next);
}

/// Records a response of any status.
export const answered = (nowMs = Date.now()): void => change({ awaySinceMs: null, answeredAtMs: nowMs });

export const unanswered = (nowMs = Date.now()): void =>
  change({ ...connection, awaySinceMs: connection.awaySinceMs ?? nowMs });

/// Calls `work` when the connection is lost and when it is back.
export function onConnection(work: (connection: Connection) => void): void {
  listener = work;
}

export const BASE = 'api/v1';
const TRIES = 4;
const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 8000;
const KEPT_ANSWERS = 64;

/// Aborts the current page's requests.
let page = new AbortController();

export function abortPage(): void {
  page.abort();
  page = new AbortController();
}

export const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === 'AbortError';

/// Sends one request with the token; the path is below /api/v1. Throws ApiError unless the status is a success or 304.
export async function request(path: string, options: RequestInit = {}): Promise<Response> {
  const given = options.headers as Record<string, string> | undefined;
  const headers = { Accept: 'application/json', ...given, ...authorization() };
  const asking = fetch(`${BASE}${path}`, { signal: page.signal, ...options, headers });
  const response = await asking.catch((error: unknown) => {
    if (isAbort(error)) throw error;
    unanswered();
    throw new ApiError(0, 'the server does not answer');
  });
  answered();
  if (response.ok || response.status === 304) return response;
  if (response.status === 401) unauthorized();
  throw await problemOf(response);
}

const PATIENCE_MS = 10_000;

/// Asks the server about this tab's token; null if it does not answer. Not aborted when a page closes, since it runs while the first one opens.
export async function askSelf(): Promise<TokenSelf | null> {
  const asking = request('/tokens/self', { signal: AbortSignal.timeout(PATIENCE_MS) });
  return asking.then((answer) => answer.json() as Promise<TokenSelf>).catch(() => null);
}

/// The delay in ms before attempt `tries` + 1; null for no further attempt. Retries requests without a response, and those that the
/// server asks to retry shortly. `random` in [0, 1) adds jitter.
export function pauseMs(error: unknown, tries: number, random: number): number | null {
  if (!(error instanceof ApiError) || tries >= TRIES || (error.retryAfterMs ?? 0) > LONGEST_PAUSE_MS) return null;
  if (![0, 429, 502, 503, 504].includes(error.status) && !(error.status === 409 && error.retryAfterMs !== null))
    return null;
  const backOff = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (tries - 1));
  return Math.max(error.retryAfterMs ?? 0, backOff * (0.5 + random));
}

export const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      if (signal.aborted) reject(new DOMException('the page was left', 'AbortError'));
      else resolve();
    };
    const timer = setTimeout(end, ms);
    if (signal.aborted) end();
    else signal.addEventListener('abort', end);
  });

/// Rejects when the page is left.
export const pause = (ms: number): Promise<void> => sleep(ms, page.signal);

/// Retries `work` until it succeeds or fails permanently.
export async function withRetries<T>(work: () => Promise<T>): Promise<T> {
  const { signal } = page;
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      const pause = pauseMs(error, tries, Math.random());
      if (pause === null) throw error;
      await sleep(pause, signal);
    }
  }
}

const answers = new Map<string, { etag: string; value: unknown }>();

/// A GET of JSON. Returns the same object again if the response has not changed since the last time.
export const getJson = async <T>(path: string): Promise<T> =>
  withRetries(async () => {
    const kept = answers.get(path);
    const response = await request(path, kept ? { headers: { 'If-None-Match': kept.etag } } : {});
    if (response.status === 304 && kept) return kept.value as T;
    const value = (await response.json()) as T;
    const etag = response.headers.get('ETag');
    answers.delete(path);
    if (etag) answers.set(path, { etag, value });
    if (answers.size > KEPT_ANSWERS) answers.delete(answers.keys().next().value!);
    return value;
  });

/// A GET of JSON with its ETag, for a conditional change.
export const getTagged = async <T>(path: string): Promise<{ value: T; etag: string | null }> =>
  withRetries(async () => {
    const response = await request(path);
    return { value: (await response.json()) as T, etag: response.headers.get('ETag') };
  });

const randomKey = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');

type Method = 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/// Sends a change. A POST carries an Idempotency-Key, so that a retry has no second effect; other methods are idempotent.
export async function sendJson<T>(
  method: Method,
  path: string,
  body?: unknown,
  { ifMatch = null }: { ifMatch?: string | null } = {},
): Promise<T | null> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (method === 'POST') headers['Idempotency-Key'] = randomKey();
  if (ifMatch) headers['If-Match'] = ifMatch;
  const init: RequestInit = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  return withRetries(async () => {
    const text = await (await request(path, init)).text();
    return text === '' ? null : (JSON.parse(text) as T);
  });
}

type ListPage<T> = { items: T[]; next_cursor: string | null };

const addQuery = (path: string, query: string): string => `${path}${path.includes('?') ? '&' : '?'}${query}`;

/// The pages of a list: one of `first` items, then of 500, the most that the server gives at once.
export async function* pages<T>(path: string, first = 500): AsyncGenerator<T[]> {
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: ListPage<T> = await getJson(
      addQuery(path, cursor ? `limit=500&cursor=${encodeURIComponent(cursor)}` : `limit=${first}`),
    );
    yield page.items;
    cursor = page.next_cursor;
  }
}

/// The first page of a list.
export const getItems = async <T>(path: string): Promise<T[]> => (await getJson<{ items: T[] }>(path)).items;

export async function getAll<T>(path: string): Promise<T[]> {
  const items: T[] = [];
  for await (const page of pages<T>(path)) items.push(...page);
  return items;
}

/// `points`: max rows per series.
export type SeriesRange = { x: 'step' | 'wall'; from?: number; to?: number; points?: number };

const MIN_ROWS = 16; // min rows requested from a series that costs too much
const KEYS_A_REQUEST = 32; // the server allows 64 keys and 4096 bytes of address

function seriesOf({ step, time_ms: timeMs, total, sampled, non_finite: nonFinite, ...columns }: SeriesAnswer): Series {
  const avg = columns.avg ?? columns.value ?? [];
  return { step, timeMs, avg, min: columns.min ?? avg, max: columns.max ?? avg, total, sampled, nonFinite };
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

/// The file name from the server's header, or the last part of the path.
export function fileName(disposition: string | null, path: string): string {
  const given = /filename="([^"]+)"/.exec(disposition ?? '')?.[1];
  return given ?? decodeURIComponent(path.split('?')[0]!.split('/').at(-1)!);
}

async function fetchFile(path: string): Promise<Response> {
  const response = await fetch(path, { headers: authorization() });
  if (response.status === 401) unauthorized();
  if (!response.ok) throw await problemOf(response);
  return response;
}

/// Fetches a file of the API with the token, as text.
export const fetchText = async (path: string): Promise<string> => (await fetchFile(path)).text();

/// Fetches a file of the API with the token and saves it; `name` may be empty. Reports start, end and failure by `say`.
export async function download(path: string, name: string, say: (text: string) => void): Promise<void> {
  say(`downloading ${name || fileName(null, path)}`);
  try {
    const response = await fetchFile(path);
    saveBlob(await response.blob(), name || fileName(response.headers.get('Content-Disposition'), path));
    say('');
  } catch (error) {
    say(`not downloaded: ${explain(error)}`);
  }
}
