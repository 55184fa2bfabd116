import { getJson, isAbort, pages } from '../api/client';
import { EventStream, type StreamState } from '../api/stream';
import type { Run } from '../api/types';

const FIRST_PAGE = 100;
const MAX_RUNS = 5000;
const RUNNING_MS = 2000;
const NEWEST_MS = 10_000;
const AGAIN_MS = 2000;

/// All runs of the server, loaded newest first and kept up to date: states by events, figures of running runs every two seconds
/// while the page is visible.
export class RunIndex {
  readonly runs = new Map<string, Run>();
  atMs = 0; // time of the newest response
  complete = false; // everything is loaded
  cut = false; // the server has more runs than this page keeps
  private closed = false;
  private failing = false;
  private stream: EventStream | null = null;
  private streamState: StreamState = 'loading';
  private readonly timers: ReturnType<typeof setInterval>[] = [];

  /// Calls `onChange` after every change of the runs, and `onState` with the state of the connection.
  constructor(
    private readonly onChange: () => void,
    private readonly onState: (state: StreamState) => void,
  ) {
    void this.start();
  }

  close(): void {
    this.closed = true;
    this.stream?.close();
    this.timers.forEach(clearInterval);
  }

  take(run: Run): void {
    if (run.deleted_at) return void this.runs.delete(run.id);
    const known = this.runs.get(run.id);
    this.runs.set(run.id, { ...known, ...run });
  }

  /// Loads page by page. Restarts from the newest after a failure; runs loaded before stay.
  private async start(): Promise<void> {
    while (!this.closed && !this.complete) {
      try {
        for await (const page of pages<Run>('/runs', FIRST_PAGE)) {
          this.failing = false;
          this.merge(page);
          if (this.closed) return;
          this.follow();
          this.tell();
          this.cut = this.runs.size >= MAX_RUNS;
          if (this.cut) break;
        }
        this.complete = true;
        this.onChange();
      } catch (error) {
        if (isAbort(error)) return;
        this.failing = true;
        this.tell();
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    }
  }

  /// Called from the first response on.
  private follow(): void {
    if (this.stream) return;
    const pollNewest = (): void => void this.poll(`/runs?limit=${FIRST_PAGE}`);
    this.stream = new EventStream(
      null,
      (event) => {
        if (event.event === 'state') {
          this.take(JSON.parse(event.data) as Run);
          this.onChange();
        } else if (event.event === 'reset') pollNewest();
      },
      (state) => {
        this.streamState = state;
        this.tell();
      },
      pollNewest,
      'state',
    );
    this.timers.push(
      setInterval(() => void this.pollRunning(), RUNNING_MS),
      setInterval(pollNewest, NEWEST_MS),
    );
  }

  private pollRunning(): Promise<void> | void {
    if (document.visibilityState === 'visible' && [...this.runs.values()].some(({ state }) => state === 'running')) {
      return this.poll('/runs?state=running&limit=500');
    }
  }

  private async poll(path: string): Promise<void> {
    try {
      const { items } = await getJson<{ items: Run[] }>(path);
      if (this.closed) return;
      this.failing = false;
      this.merge(items);
    } catch (error) {
      this.failing = !isAbort(error);
    }
    this.tell();
  }

  private merge(runs: readonly Run[]): void {
    if (this.closed) return;
    runs.forEach((run) => this.take(run));
    this.atMs = Date.now();
    this.onChange();
  }

  private tell(): void {
    if (!this.closed) this.onState(this.failing ? 'reconnecting' : this.streamState);
  }
}
