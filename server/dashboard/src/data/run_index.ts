import { getItems, getJson, isAbort, pages } from '../api/client';
import { EventStream, type ServerEvent, type StreamState } from '../api/stream';
import type { MetricKey, Run } from '../api/types';
import { flatten } from '../lib/config_tree';
import { Life } from '../lib/work';

const AT_ONCE = 4;
const FRESH_MS = 10_000;

/// `mark`: version of the run when the value was fetched.
type Kept<T> = { value: T | null; mark: string; atMs: number; waiting: boolean };

type Details<T> = Map<string, Kept<ReadonlyMap<string, T>>>;

/// Configurations and metric summaries of runs. Fetched on first use, a few at a time, and cached.
export class RunDetails {
  private readonly configs: Details<string> = new Map();
  private readonly keys: Details<MetricKey> = new Map();
  private readonly queue: (() => Promise<void>)[] = [];
  private readonly waiters: (() => void)[] = [];
  private active = 0;

  constructor(
    private readonly onChange: () => void,
    private readonly now: () => number = Date.now,
  ) {}

  /// Null while it is being fetched.
  config(run: Run): ReadonlyMap<string, string> | null {
    return this.get(this.configs, run.id, `${run.attempt}`, 0, async () => {
      const { config } = await getJson<Run>(`/runs/${run.id}`);
      return flatten(config ?? '');
    });
  }

  metrics(run: Run): ReadonlyMap<string, MetricKey> | null {
    return this.get(this.keys, run.id, `${run.attempt} ${run.update}`, FRESH_MS, async () => {
      const items = await getItems<MetricKey>(`/runs/${run.id}/metrics`);
      return new Map(items.map((item) => [item.key, item]));
    });
  }

  /// Fetches a value again if its mark has changed and it is older than `freshMs`; returns the old one meanwhile. Retries failed
  /// requests after FRESH_MS.
  private get<T>(
    kept: Details<T>,
    id: string,
    mark: string,
    freshMs: number,
    fetch: () => Promise<ReadonlyMap<string, T>>,
  ): ReadonlyMap<string, T> | null {
    const entry = kept.get(id) ?? { value: null, mark: '', atMs: -Infinity, waiting: false };
    kept.set(id, entry);
    const pauseMs = entry.value === null ? FRESH_MS : freshMs;
    if (entry.waiting || entry.mark === mark || this.now() - entry.atMs < pauseMs) return entry.value;
    const take = (value: ReadonlyMap<string, T>): void => {
      Object.assign(entry, { value, mark });
      this.onChange();
    };
    const ended = (): unknown => Object.assign(entry, { atMs: this.now(), waiting: false });
    entry.waiting = true;
    this.queue.push(() =>
      fetch()
        .then(take, () => undefined)
        .then(() => void ended()),
    );
    this.work();
    return entry.value;
  }

  private work(): void {
    while (this.active < AT_ONCE && this.queue.length > 0) {
      this.active += 1;
      void this.queue.shift()!().then(() => {
        this.active -= 1;
        this.work();
        if (this.active === 0) this.waiters.splice(0).forEach((tell) => tell());
      });
    }
  }

  /// Resolves when no request is pending.
  settled(): Promise<void> {
    return this.active === 0 ? Promise.resolve() : new Promise((resolve) => this.waiters.push(resolve));
  }
}

const FIRST_PAGE = 100;
const MAX_RUNS = 5000;
const RUNNING_MS = 2000;
const NEWEST_MS = 10_000;
const AGAIN_MS = 2000;

/// All runs of the server, loaded newest first and kept up to date: states by events, figures of running runs every two seconds
/// while the page is visible.
export class RunIndex extends Life {
  readonly runs = new Map<string, Run>();
  atMs = 0; // time of the newest response
  complete = false; // everything is loaded
  cut = false; // the server has more runs than this page keeps
  private failing = false;
  private stream: EventStream | null = null;
  private streamState: StreamState = 'loading';
  private readonly again = this.later(AGAIN_MS, () => void this.start());

  /// Calls `onChange` after every change of the runs, and `onState` with the state of the connection.
  constructor(
    private readonly onChange: () => void,
    private readonly onState: (state: StreamState) => void,
  ) {
    super();
    void this.start();
  }

  take(run: Run): void {
    if (run.deleted_at) return void this.runs.delete(run.id);
    this.runs.set(run.id, { ...this.runs.get(run.id), ...run });
  }

  /// Loads page by page. Restarts from the newest after a failure; runs loaded before stay.
  private async start(): Promise<void> {
    try {
      for await (const page of pages<Run>('/runs', FIRST_PAGE)) {
        this.merge(page);
        this.follow();
        this.tell();
        this.cut = this.runs.size >= MAX_RUNS;
        if (this.cut) break;
      }
      this.complete = true;
      this.open(this.onChange)();
    } catch (error) {
      if (isAbort(error)) return;
      this.failing = true;
      this.tell();
      this.again();
    }
  }

  /// Called from the first response on.
  private readonly follow = this.open(() => {
    if (this.stream) return;
    const pollNewest = (): void => void this.poll(`/runs?limit=${FIRST_PAGE}`);
    const take = ({ event, data }: ServerEvent): void => {
      if (event === 'state') {
        this.take(JSON.parse(data) as Run);
        this.onChange();
      } else if (event === 'reset') pollNewest();
    };
    const tell = (state: StreamState): void => {
      this.streamState = state;
      this.tell();
    };
    const stream = new EventStream(null, take, tell, pollNewest, 'state');
    this.stream = stream;
    this.atEnd(() => stream.close());
    this.every(RUNNING_MS, () => void this.pollRunning());
    this.every(NEWEST_MS, pollNewest);
  });

  private pollRunning(): Promise<void> | void {
    const running = [...this.runs.values()].some(({ state }) => state === 'running');
    if (running && document.visibilityState === 'visible') return this.poll('/runs?state=running&limit=500');
  }

  private async poll(path: string): Promise<void> {
    try {
      this.merge(await getItems<Run>(path));
    } catch (error) {
      this.failing = !isAbort(error);
    }
    this.tell();
  }

  private readonly merge = this.open((runs: readonly Run[]) => {
    this.failing = false;
    runs.forEach((run) => this.take(run));
    this.atMs = Date.now();
    this.onChange();
  });

  private readonly tell = this.open(() => this.onState(this.failing ? 'reconnecting' : this.streamState));
}
