import { answered, unanswered } from './connection';
import { ApiError, problemOf } from './problem';
import { authorization, unauthorized } from './session';

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
  let response: Response;
  try {
    response = await fetch(`${BASE}${path}`, {
      signal: page.signal,
      ...options,
      headers: {
        Accept: 'application/json',
        ...(options.headers as Record<string, string> | undefined),
        ...authorization(),
      },
    });
  } catch (error) {
    if (isAbort(error)) throw error;
    unanswered();
    throw new ApiError(0, 'the server does not answer');
  }
  answered();
  if (response.ok || response.status === 304) return response;
  if (response.status === 401) unauthorized();
  throw await problemOf(response);
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

export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer);
      reject(new DOMException('the page was left', 'AbortError'));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', end);
      resolve();
    }, ms);
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
  });
}

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
export async function getJson<T>(path: string): Promise<T> {
  return withRetries(async () => {
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
}

/// A GET of JSON with its ETag, for a conditional change.
export async function getTagged<T>(path: string): Promise<{ value: T; etag: string | null }> {
  return withRetries(async () => {
    const response = await request(path);
    return { value: (await response.json()) as T, etag: response.headers.get('ETag') };
  });
}

const randomKey = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');

/// Sends a change. A POST carries an Idempotency-Key, so that a retry has no second effect; other methods are idempotent.
export async function sendJson<T>(
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body?: unknown,
  options: { ifMatch?: string | null } = {},
): Promise<T | null> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (method === 'POST') headers['Idempotency-Key'] = randomKey();
  if (options.ifMatch) headers['If-Match'] = options.ifMatch;
  const init: RequestInit = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
  return withRetries(async () => {
    const text = await (await request(path, init)).text();
    return text === '' ? null : (JSON.parse(text) as T);
  });
}
