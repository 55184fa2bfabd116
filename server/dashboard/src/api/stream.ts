import { queryOf } from '../lib/routes';
import { answered, BASE, isAbort, problemOf, sleep, unanswered } from './client';
import { authorization, unauthorized } from './session';

export type ServerEvent = { id: string; event: string; data: string };

/// An incremental parser of text/event-stream (WHATWG HTML, "Interpreting an event stream").
/// Comments count as a sign of life but yield no event.
export class EventStreamParser {
  lastId = '';
  retryMs: number | null = null;
  private buffer = '';
  private event = '';
  private data: string[] = [];

  constructor(private readonly onEvent: (event: ServerEvent) => void) {}

  feed(text: string): void {
    this.buffer += text;
    for (;;) {
      const match = /\r\n|\n|\r(?!$)/.exec(this.buffer); // a lone CR at the very end may be half of CRLF
      if (!match) return;
      const line = this.buffer.slice(0, match.index);
      this.buffer = this.buffer.slice(match.index + match[0].length);
      this.line(line);
    }
  }

  private line(line: string): void {
    if (line === '') return this.dispatch();
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') this.data.push(value);
    else if (field === 'event') this.event = value;
    else if (field === 'id' && !value.includes('\0')) this.lastId = value;
    else if (field === 'retry' && /^\d+$/.test(value)) this.retryMs = Number(value);
  }

  private dispatch(): void {
    const { event, data } = this;
    this.event = '';
    this.data = [];
    if (data.length > 0) this.onEvent({ id: this.lastId, event: event || 'message', data: data.join('\n') });
  }
}

export type StreamState = 'loading' | 'live' | 'reconnecting';
const SILENCE_MS = 40_000; // the server sends something every 15 s
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 15_000;
const STEADY_MS = 20_000; // a stream that lasts this long resets the backoff
const HIDDEN_MS = 10_000; // browsers open six connections to a server: a tab that nobody sees gives its own back
const CHECK_MS = 1000; // whether nothing more is expected
const REST_MS = 20_000;

/// The delay before reconnecting after `failures` in a row; at least the server's `retry`.
export function reconnectMs(failures: number, retryMs: number | null, random: number): number {
  const backOff = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures, 10));
  return Math.max(retryMs ?? 0, backOff) * (0.75 + 0.5 * random);
}

/// The server's event stream, read by fetch with the token. Reconnects from the last event received. `run` null: events of all
/// runs. While disconnected, calls onPoll before each attempt, so that the page can use plain requests. Event `reset`: events
/// were missed, fetch everything; `gap`: some metrics were left out. While the page is hidden, or `rests` says that nothing
/// more is expected, there is no connection; in the second case calls onRest now and then instead.
export class EventStream {
  private readonly abort = new AbortController();
  private connection: AbortController | null = null;
  private leaving: ReturnType<typeof setTimeout> | undefined;
  private left = false; // because the page is hidden
  private lastId = '';
  private retryMs: number | null = null;
  private failures = 0;

  constructor(
    private readonly run: string | null,
    private readonly onEvent: (event: ServerEvent) => void,
    private readonly onState: (state: StreamState) => void,
    private readonly onPoll: () => void,
    private readonly topics = '',
    private readonly rests: () => boolean = () => false,
    private readonly onRest: () => void = () => undefined,
  ) {
    document.addEventListener('visibilitychange', () => this.follow(), { signal: this.abort.signal });
    this.follow(); // a page may be opened hidden
    void this.loop();
  }

  close(): void {
    clearTimeout(this.leaving);
    this.abort.abort();
  }

  private follow(): void {
    clearTimeout(this.leaving);
    if (!document.hidden) return;
    this.leaving = setTimeout(() => {
      this.left = true;
      this.connection?.abort();
    }, HIDDEN_MS);
  }

  /// Returns when the page is seen again, or the stream closed.
  private async untilSeen(): Promise<void> {
    const { signal } = this.abort;
    while (document.hidden && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const go = (): void => resolve();
        document.addEventListener('visibilitychange', go, { once: true, signal });
        signal.addEventListener('abort', go, { once: true });
      });
    }
    this.left = false;
    this.failures = 0;
    if (!signal.aborted) this.onPoll();
  }

  /// Asks now and then until something is expected again.
  private async rest(): Promise<void> {
    const { signal } = this.abort;
    this.onState('live'); // up to date, though not connected
    while (!signal.aborted && this.rests()) {
      await sleep(REST_MS, signal).catch(() => undefined);
      if (!signal.aborted && !document.hidden) this.onRest();
    }
  }

  private async loop(): Promise<void> {
    const { signal } = this.abort;
    while (!signal.aborted) {
      if (this.rests()) await this.rest();
      if (this.left) await this.untilSeen();
      if (signal.aborted) return;
      const began = Date.now();
      await this.readOnce().catch(() => undefined);
      if (signal.aborted) return;
      if (this.left || this.rests()) continue;
      if (Date.now() - began > STEADY_MS) this.failures = 0;
      this.onState('reconnecting');
      await sleep(reconnectMs(this.failures++, this.retryMs, Math.random()), signal).catch(() => undefined);
      if (!signal.aborted && !this.left) this.onPoll();
    }
  }

  private address(): string {
    return `${BASE}/events?${queryOf({ run: this.run, topic: this.topics })}`;
  }

  private async readOnce(): Promise<void> {
    const connection = new AbortController();
    this.connection = connection;
    const stop = (): void => connection.abort();
    this.abort.signal.addEventListener('abort', stop, { once: true });
    let silence = setTimeout(stop, SILENCE_MS);
    const resting = setInterval(() => this.rests() && stop(), CHECK_MS);
    try {
      const headers: Record<string, string> = { Accept: 'text/event-stream', ...authorization() };
      if (this.lastId) headers['Last-Event-ID'] = this.lastId;
      const response = await fetch(this.address(), { headers, signal: connection.signal }).catch((error: unknown) => {
        if (!isAbort(error)) unanswered();
        throw error;
      });
      answered();
      if (response.status === 401) unauthorized();
      if (!response.ok || !response.body) {
        this.retryMs = (await problemOf(response)).retryAfterMs;
        return;
      }
      this.onState('live');
      const parser = new EventStreamParser((event) => {
        this.lastId = event.id;
        this.onEvent(event);
      });
      const decoder = new TextDecoder();
      const reader = response.body.getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        answered();
        clearTimeout(silence);
        silence = setTimeout(stop, SILENCE_MS);
        parser.feed(decoder.decode(value, { stream: true }));
        this.retryMs = parser.retryMs;
      }
    } finally {
      clearTimeout(silence);
      clearInterval(resting);
      this.abort.signal.removeEventListener('abort', stop);
    }
  }
}
