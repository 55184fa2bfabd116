import {
  abortPage,
  ApiError,
  explain,
  fileName,
  getAll,
  getJson,
  getSeries,
  pauseMs,
  problemOf,
  retryAfterMs,
  sendJson,
} from '../../server/dashboard/src/api/client';
import {
  allows,
  hasToken,
  KEPT_DAYS,
  keptText,
  keptToken,
  onUnauthorized,
  setToken,
  splitToken,
  startSession,
  tokenKey,
} from '../../server/dashboard/src/api/session';
import { EventStream, reconnectMs, type ServerEvent } from '../../server/dashboard/src/api/stream';
import { postForEvents } from '../../server/dashboard/src/data/translate_form';

interface Asked {
  path: string;
  method: string;
  headers: Record<string, string>;
  body: string | undefined;
}

/// Answers fetch() with the given responses one after the other, and keeps what was asked.
function answerWith(...answers: (Response | Error | (() => Response))[]): Asked[] {
  const asked: Asked[] = [];
  vi.stubGlobal('fetch', (path: string, options: RequestInit = {}) => {
    asked.push({
      path,
      method: options.method ?? 'GET',
      headers: options.headers as Record<string, string>,
      body: options.body as string | undefined,
    });
    const answer = answers.length > 1 ? answers.shift()! : answers[0]!;
    if (answer instanceof Error) return Promise.reject(answer);
    return Promise.resolve(typeof answer === 'function' ? answer() : answer);
  });
  return asked;
}

const json = (value: unknown, status = 200, headers: Record<string, string> = {}): Response =>
  new Response(JSON.stringify(value), { status, headers });

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
  onUnauthorized(() => undefined);
});

describe('the token in a link', () => {
  it('is taken out, and the rest of the address stays', () => {
    expect(splitToken('#token=abc-1')).toEqual({ token: 'abc-1', rest: '' });
    expect(splitToken('#token=a%2Bb&/runs/r_1?x=wall')).toEqual({ token: 'a+b', rest: '#/runs/r_1?x=wall' });
    expect(splitToken('#/runs/r_1?x=wall&token=abc')).toEqual({
      token: 'abc',
      rest: '#/runs/r_1?x=wall',
      shared: false,
    });
    expect(splitToken('#/runs?token=abc')).toEqual({ token: 'abc', rest: '#/runs', shared: false });
    expect(splitToken('#/runs/r_1?share=abc')).toEqual({ token: 'abc', rest: '#/runs/r_1', shared: true });
    expect(splitToken('#token=cut%2')).toEqual({ token: 'cut%2', rest: '' });
  });
  it('is not seen where there is none', () => {
    for (const hash of ['', '#/runs', '#/runs?q=token', '#/runs/r_1?find=token%3D'])
      expect(splitToken(hash)).toBeNull();
  });
});

describe('series that cost too much', () => {
  const series = (key: string) => ({
    key,
    step: [1],
    time_ms: [1],
    value: [2],
    total: 1,
    sampled: false,
    non_finite: [],
  });
  const refused = (): Response => json({ code: 'query_too_expensive', detail: 'ask for less' }, 422);
  const keysOf = (asked: Asked): string => new URL(asked.path, 'http://x').searchParams.get('keys')!;
  it('are asked for in halves', async () => {
    const asked = answerWith(refused(), json({ items: [series('a'), series('b')] }), json({ items: [series('c')] }));
    const found = await getSeries('r_1', ['a', 'b', 'c', 'a'], { x: 'step' });
    expect([...found.keys()]).toEqual(['a', 'b', 'c']);
    expect(asked.map(keysOf)).toEqual(['a,b,c', 'a,b', 'c']);
  });
  it('are asked for with fewer rows if it is a single one, as long as that may help', async () => {
    const asked = answerWith(refused(), json({ items: [series('a')] }));
    expect((await getSeries('r_1', ['a'], { x: 'step' })).size).toBe(1);
    expect(asked.map(({ path }) => new URL(path, 'http://x').searchParams.get('points'))).toEqual(['1200', '300']);
    const often = answerWith(refused);
    await expect(getSeries('r_1', ['a'], { x: 'step' })).rejects.toThrow('ask for less');
    expect(often.length).toBe(5);
  });
});

describe('the token that a browser keeps', () => {
  const now = Date.parse('2026-11-22T10:00:00Z');
  const text = keptText('bbr_secret', now);
  it('is there for all tabs until nobody has used it for a while', () => {
    expect(keptToken(text, now + 1)).toBe('bbr_secret');
    expect(keptToken(text, now + KEPT_DAYS * 86_400_000 - 1)).toBe('bbr_secret');
    expect(keptToken(text, now + KEPT_DAYS * 86_400_000)).toBeNull();
  });
  it('is nothing else that may stand there', () => {
    for (const other of [null, '', 'bbr_secret', '{"token":"a"}', '{"until":1e15}', '7', '{"token":5,"until":1e15}'])
      expect(keptToken(other, now)).toBeNull();
  });
});

describe('scopes', () => {
  it('grow from read to admin, and without tokens everything goes', () => {
    expect(allows('read', 'read')).toBe(true);
    expect(allows('read', 'operate')).toBe(false);
    expect(allows('operate', 'operate')).toBe(true);
    expect(allows('operate', 'admin')).toBe(false);
    expect(allows('ingest', 'read')).toBe(false);
    expect(allows(null, 'admin')).toBe(true);
  });
});

describe('requests', () => {
  it('carry the token and keep what has not changed', async () => {
    setToken('secret', false);
    const asked = answerWith(
      json({ a: 1 }, 200, { ETag: '"v1"' }),
      new Response(null, { status: 304 }),
      json({ a: 2 }, 200, { ETag: '"v2"' }),
    );
    const first = await getJson('/kept');
    const second = await getJson('/kept');
    const third = await getJson('/kept');
    expect(second).toBe(first);
    expect(third).toEqual({ a: 2 });
    expect(asked.map(({ headers }) => headers['Authorization'])).toEqual([
      'Bearer secret',
      'Bearer secret',
      'Bearer secret',
    ]);
    expect(asked.map(({ headers }) => headers['If-None-Match'])).toEqual([undefined, '"v1"', '"v1"']);
  });
  it('follow the cursor to the end', async () => {
    const asked = answerWith(json({ items: [1, 2], next_cursor: 'a b' }), json({ items: [3], next_cursor: null }));
    expect(await getAll('/list?x=1')).toEqual([1, 2, 3]);
    expect(asked.map(({ path }) => path)).toEqual([
      'api/v1/list?x=1&limit=500',
      'api/v1/list?x=1&limit=500&cursor=a%20b',
    ]);
  });
  it('try again what failed for a while, with one idempotency key', async () => {
    vi.useFakeTimers();
    const asked = answerWith(new TypeError('failed'), json({ detail: 'busy' }, 503), json({ id: 'r_1' }, 202));
    const sent = sendJson('POST', '/runs', { name: 'a' });
    await vi.advanceTimersByTimeAsync(5000);
    expect(await sent).toEqual({ id: 'r_1' });
    expect(asked.length).toBe(3);
    expect(asked[0]!.headers['Idempotency-Key']).toMatch(/^[0-9a-f]{32}$/);
    expect(new Set(asked.map(({ headers }) => headers['Idempotency-Key'])).size).toBe(1);
    expect(asked[2]!.body).toBe('{"name":"a"}');
  });
  it('do not try again what is wrong for good, and say it in one line', async () => {
    const asked = answerWith(
      json({ detail: 'config: no such key', code: 'config_invalid', errors: [{ detail: 'modle', line: 3 }] }, 422),
    );
    const error = await sendJson('POST', '/runs', {}).catch((thrown: unknown) => thrown);
    expect(asked.length).toBe(1);
    expect(error).toBeInstanceOf(ApiError);
    expect(explain(error)).toBe('config: no such key (422)');
    expect((error as ApiError).errors[0]!.line).toBe(3);
  });
  it('tell of a 401 once for each', async () => {
    let told = 0;
    onUnauthorized(() => {
      told += 1;
    });
    answerWith(() => json({ detail: 'no token' }, 401));
    await expect(getJson('/runs')).rejects.toThrow('no token');
    expect(told).toBe(1);
  });
  it('send If-Match with a change and take an empty answer', async () => {
    const asked = answerWith(new Response(null, { status: 204 }));
    expect(await sendJson('DELETE', '/runs/r_1', undefined, { ifMatch: '"v7"' })).toBeNull();
    expect(asked[0]!.headers).toMatchObject({ 'If-Match': '"v7"' });
    expect(asked[0]!.headers['Content-Type']).toBeUndefined();
  });
  it('end when their page is left, also while they wait to try again', async () => {
    vi.useFakeTimers();
    const asked = answerWith(new TypeError('failed'));
    const asking = getJson('/left').catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(0);
    abortPage();
    expect(await asking).toMatchObject({ name: 'AbortError' });
    expect(asked.length).toBe(1);
  });
});

describe('pauses', () => {
  it('grow, keep to Retry-After and end', () => {
    const busy = new ApiError(503, 'busy');
    expect(pauseMs(busy, 1, 0.5)).toBe(400);
    expect(pauseMs(busy, 3, 0.5)).toBe(1600);
    expect(pauseMs(busy, 4, 0.5)).toBeNull();
    expect(pauseMs(new ApiError(429, 'slow down', '', [], 7000), 1, 0)).toBe(7000);
    expect(pauseMs(new ApiError(429, 'too soon', '', [], 10_000), 1, 0)).toBeNull(); // the reader is told, not kept waiting
    expect(pauseMs(new ApiError(409, 'key in flight', '', [], 1000), 1, 0)).toBe(1000);
    expect(pauseMs(new ApiError(409, 'not possible now'), 1, 0)).toBeNull();
    expect(pauseMs(new ApiError(404, 'none'), 1, 0)).toBeNull();
    expect(pauseMs(new DOMException('left', 'AbortError'), 1, 0)).toBeNull();
  });
  it('of the event stream have a ceiling and heed the server', () => {
    expect(reconnectMs(0, null, 0.5)).toBe(1000);
    expect(reconnectMs(2, null, 0.5)).toBe(4000);
    expect(reconnectMs(50, null, 0.5)).toBe(15_000);
    expect(reconnectMs(0, 2000, 0.5)).toBe(2000);
  });
  it('read Retry-After as seconds and as a date', () => {
    const now = Date.parse('2026-11-21T14:00:00Z');
    expect(retryAfterMs('3', now)).toBe(3000);
    expect(retryAfterMs('Sat, 21 Nov 2026 14:00:05 GMT', now)).toBe(5000);
    expect(retryAfterMs('soon', now)).toBeNull();
    expect(retryAfterMs(null, now)).toBeNull();
  });
});

describe('problems', () => {
  it('have words even where the server has none', async () => {
    expect(explain(await problemOf(new Response('<html>', { status: 507 })))).toBe("the server's disk is full (507)");
    expect(explain(await problemOf(new Response('', { status: 418 })))).toBe('the server answered 418 (418)');
    expect(explain(new ApiError(0, 'the server does not answer'))).toBe('the server does not answer');
    expect(explain('x')).toBe('x');
  });
});

describe('names of downloads', () => {
  it('come from the server, else from the address', () => {
    expect(fileName('attachment; filename="model.safetensors"', 'api/v1/x')).toBe('model.safetensors');
    expect(fileName(null, 'api/v1/checkpoints/c_1/files/a%20b.json?x=1')).toBe('a b.json');
  });
});

describe('a session without storage', () => {
  it('lives as long as the page', () => {
    const blocked = {
      get(): never {
        throw new DOMException('blocked', 'SecurityError');
      },
    };
    Object.defineProperty(globalThis, 'sessionStorage', { configurable: true, ...blocked });
    Object.defineProperty(globalThis, 'localStorage', { configurable: true, ...blocked });
    vi.stubGlobal('location', { hash: '#token=secret', pathname: '/', search: '' });
    vi.stubGlobal('history', { replaceState: () => undefined });
    startSession();
    expect(hasToken()).toBe(true);
    vi.stubGlobal('location', { hash: '#/alerts', pathname: '/', search: '' });
    startSession();
    expect(hasToken()).toBe(true);
  });
  it('takes a storage that is full', () => {
    const full = {
      setItem: () => {
        throw new DOMException('full', 'QuotaExceededError');
      },
      removeItem: () => undefined,
    };
    for (const name of ['sessionStorage', 'localStorage'])
      Object.defineProperty(globalThis, name, { configurable: true, value: full });
    expect(() => setToken('secret', true)).not.toThrow();
    expect(hasToken()).toBe(true);
  });
});

describe('a POST answered by events', () => {
  const events = (...chunks: string[]): Response =>
    new Response(
      new ReadableStream({
        start(controller) {
          for (const chunk of chunks) controller.enqueue(new TextEncoder().encode(chunk));
          controller.close();
        },
      }),
    );
  const seen: ServerEvent[] = [];
  const post = async (): Promise<void> => postForEvents('/t', { a: 1 }, (event) => seen.push(event));
  it('calls with each event', async () => {
    const asked = answerWith(events('event: text\ndata: {"li', 'ne":0}\n\nevent: done\ndata: {}\n\n'));
    await post();
    expect(seen.map(({ event, data }) => [event, data])).toEqual([
      ['text', '{"line":0}'],
      ['done', '{}'],
    ]);
    expect(asked.map(({ method, body }) => [method, body])).toEqual([['POST', '{"a":1}']]);
  });
  it('throws a problem before the events, or among them', async () => {
    answerWith(json({ detail: 'of 700 tokens' }, 422));
    await expect(post()).rejects.toThrow('of 700 tokens');
    answerWith(events('event: error\ndata: {"status":500,"detail":"it broke","code":"translator_failed"}\n\n'));
    await expect(post()).rejects.toMatchObject({ status: 500, message: 'it broke', code: 'translator_failed' });
  });
});

describe('EventStream', () => {
  /// A page that can be hidden, and connections that stay open until they are aborted.
  function setUp(): { page: EventTarget & { hidden: boolean }; open: () => number; asked: () => number } {
    vi.useFakeTimers();
    const page = Object.assign(new EventTarget(), { hidden: false });
    vi.stubGlobal('document', page);
    let open = 0;
    let asked = 0;
    vi.stubGlobal('fetch', (_path: string, { signal }: { signal: AbortSignal }) => {
      asked += 1;
      open += 1;
      const body = new ReadableStream({
        start(controller) {
          signal.addEventListener('abort', () => {
            open -= 1;
            controller.error(new DOMException('left', 'AbortError'));
          });
          const beat = setInterval(
            () => (signal.aborted ? clearInterval(beat) : controller.enqueue(new TextEncoder().encode(':\n'))),
            15_000,
          );
        },
      });
      return Promise.resolve(new Response(body));
    });
    return { page, open: () => open, asked: () => asked };
  }
  const hide = (page: EventTarget & { hidden: boolean }, hidden: boolean): void => {
    page.hidden = hidden;
    page.dispatchEvent(new Event('visibilitychange'));
  };

  it('gives its connection back while nobody sees the page', async () => {
    const { page, open, asked } = setUp();
    let polls = 0;
    const stream = new EventStream(
      'r_1',
      () => undefined,
      () => undefined,
      () => (polls += 1),
    );
    await vi.advanceTimersByTimeAsync(1000);
    expect(open()).toBe(1);
    hide(page, true);
    await vi.advanceTimersByTimeAsync(5000);
    hide(page, false); // a glance at another tab
    await vi.advanceTimersByTimeAsync(30_000);
    expect([open(), asked()]).toEqual([1, 1]);
    hide(page, true);
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect([open(), asked(), polls]).toEqual([0, 1, 0]);
    hide(page, false);
    await vi.advanceTimersByTimeAsync(100);
    expect([open(), asked(), polls]).toEqual([1, 2, 1]);
    stream.close();
    expect(open()).toBe(0);
  });

  it('gives the connection of a page that was opened hidden back', async () => {
    const { page, open } = setUp();
    page.hidden = true;
    const stream = new EventStream(
      'r_1',
      () => undefined,
      () => undefined,
      () => undefined,
    );
    await vi.advanceTimersByTimeAsync(1000);
    expect(open()).toBe(1);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(open()).toBe(0);
    hide(page, false);
    await vi.advanceTimersByTimeAsync(100);
    expect(open()).toBe(1);
    stream.close();
  });

  it('opens no connection if the page was hidden while the server was away', async () => {
    const { page, asked } = setUp();
    const connect = globalThis.fetch;
    vi.stubGlobal('fetch', () => Promise.reject(new TypeError('refused')));
    const stream = new EventStream(
      'r_1',
      () => undefined,
      () => undefined,
      () => undefined,
    );
    await vi.advanceTimersByTimeAsync(2000);
    hide(page, true);
    await vi.advanceTimersByTimeAsync(60_000);
    vi.stubGlobal('fetch', connect);
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(asked()).toBe(0);
    hide(page, false);
    await vi.advanceTimersByTimeAsync(100);
    expect(asked()).toBe(1);
    stream.close();
  });

  it('rests while nothing is expected, and asks now and then', async () => {
    const { open, asked } = setUp();
    let over = false;
    let rests = 0;
    const states: string[] = [];
    const stream = new EventStream(
      'r_1',
      () => undefined,
      (state) => states.push(state),
      () => undefined,
      '',
      () => over,
      () => (rests += 1),
    );
    await vi.advanceTimersByTimeAsync(20_000);
    expect(open()).toBe(1);
    over = true;
    await vi.advanceTimersByTimeAsync(75_000);
    expect([open(), rests]).toEqual([0, 3]);
    expect(states).not.toContain('reconnecting');
    over = false; // resumed
    await vi.advanceTimersByTimeAsync(21_000);
    expect([open(), asked()]).toEqual([1, 2]);
    stream.close();
  });
});

it('keeps the tokens of servers that share an origin apart', () => {
  expect(tokenKey('/')).toBe('babelring.token');
  expect(tokenKey('/index.html')).toBe('babelring.token');
  expect(tokenKey('/a/')).toBe('babelring.token:/a/');
  expect(tokenKey('/a/index.html')).toBe('babelring.token:/a/');
  expect(tokenKey('/b/')).not.toBe(tokenKey('/a/'));
});
