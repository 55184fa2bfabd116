import { EventStreamParser, type ServerEvent } from './sse';

export type StreamState = 'loading' | 'live' | 'reconnecting';

const SILENCE_MS = 40_000;  // the server says something every 15 s
const POLL_MS = 3_000;

/// The server's events by fetch, reconnected from the last event seen. While there is no stream, onPoll is called
/// every few seconds instead, so that the page goes on with plain requests.
export class EventStream {
  private readonly abort = new AbortController();
  private lastId = '';

  constructor(private readonly run: string, private readonly onEvent: (event: ServerEvent) => void,
    private readonly onState: (state: StreamState) => void, private readonly onPoll: () => void) {
    void this.loop();
  }

  close(): void {
    this.abort.abort();
  }

  private async loop(): Promise<void> {
    while (!this.abort.signal.aborted) {
      await this.readOnce().catch(() => undefined);
      if (this.abort.signal.aborted) return;
      this.onState('reconnecting');
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      if (!this.abort.signal.aborted) this.onPoll();
    }
  }

  private async readOnce(): Promise<void> {
    const connection = new AbortController();
    const stop = (): void => connection.abort();
    this.abort.signal.addEventListener('abort', stop, { once: true });
    let silence = setTimeout(stop, SILENCE_MS);
    try {
      const headers: Record<string, string> = { Accept: 'text/event-stream' };
      if (this.lastId) headers['Last-Event-ID'] = this.lastId;
      const response = await fetch(`api/v1/events?run=${this.run}`, { headers, signal: connection.signal });
      if (!response.ok || !response.body) return;
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
        clearTimeout(silence);
        silence = setTimeout(stop, SILENCE_MS);
        parser.feed(decoder.decode(value, { stream: true }));
      }
    } finally {
      clearTimeout(silence);
      this.abort.signal.removeEventListener('abort', stop);
    }
  }
}
