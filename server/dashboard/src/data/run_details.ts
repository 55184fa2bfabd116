import { getJson } from '../api/client';
import type { MetricKey, Run } from '../api/types';

const AT_ONCE = 4;
const FRESH_MS = 10_000;

interface Kept<T> {
  value: T | null;
  mark: string; // version of the run when it was fetched
  atMs: number;
  waiting: boolean;
}

/// Configurations and metric summaries of runs. Fetched on first use, a few at a time, and cached.
export class RunDetails {
  private readonly configs = new Map<string, Kept<ReadonlyMap<string, string>>>();
  private readonly keys = new Map<string, Kept<ReadonlyMap<string, MetricKey>>>();
  private readonly queue: (() => Promise<void>)[] = [];
  private readonly waiters: (() => void)[] = [];
  private active = 0;

  constructor(
    private readonly onChange: () => void,
    private readonly now: () => number = Date.now,
  ) {}

  /// Null while it is being fetched.
  config(run: Run): ReadonlyMap<string, string> | null {
    return this.get(this.configs, run, `${run.attempt}`, 0, async () => {
      const [{ config }, { flatten }] = await Promise.all([
        getJson<Run>(`/runs/${run.id}`),
        import('../lib/config_tree'),
      ]);
      return flatten(config ?? '');
    });
  }

  metrics(run: Run): ReadonlyMap<string, MetricKey> | null {
    return this.get(
      this.keys,
      run,
      `${run.attempt} ${run.update}`,
      FRESH_MS,
      async () =>
        new Map(
          (await getJson<{ items: MetricKey[] }>(`/runs/${run.id}/metrics`)).items.map((item) => [item.key, item]),
        ),
    );
  }

  /// Fetches a value again if the run's mark has changed and the value is older than `freshMs`; returns the old one meanwhile.
  /// Retries failed requests after FRESH_MS.
  private get<T>(
    kept: Map<string, Kept<T>>,
    run: Run,
    mark: string,
    freshMs: number,
    fetch: () => Promise<T>,
  ): T | null {
    let entry = kept.get(run.id);
    if (!entry) kept.set(run.id, (entry = { value: null, mark: '', atMs: -Infinity, waiting: false }));
    const pauseMs = entry.value === null ? FRESH_MS : freshMs;
    if (!entry.waiting && entry.mark !== mark && this.now() - entry.atMs >= pauseMs) this.fetch(entry, mark, fetch);
    return entry.value;
  }

  private fetch<T>(entry: Kept<T>, mark: string, fetch: () => Promise<T>): void {
    entry.waiting = true;
    this.queue.push(async () => {
      try {
        entry.value = await fetch();
        entry.mark = mark;
        this.onChange();
      } catch {
        // retried after FRESH_MS
      }
      entry.atMs = this.now();
      entry.waiting = false;
    });
    this.work();
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
