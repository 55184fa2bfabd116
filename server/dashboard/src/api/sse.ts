export interface ServerEvent {
  id: string;
  event: string;
  data: string;
}

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
