import { getAll, getItems, getJson } from '../api/client';
import type * as api from '../api/types';
import type { XAxis } from '../lib/axes';
import { fileStem } from '../lib/format';
import type { ViewState } from '../lib/routes';
import { ema, type Series, type Trend, trendOf } from '../lib/series';
import { SeriesStore, type Window } from './series_store';

/// The series that the summary needs, whichever charts are in view.
const SUMMARY_KEYS = ['loss', 'target_tokens_per_second'];
const FACTS = ['run', 'ranks', 'evals', 'checkpoints', 'keys', 'verdict', 'alerts', 'transitions'] as const;

/// A separately fetched part of the data. `tail`: rows newer than the loaded ones; `series`: all needed series; `missing`: series
/// of charts that came into view.
export type Part = (typeof FACTS)[number] | 'tail' | 'missing' | 'series';
export const ALL_PARTS: readonly Part[] = [...FACTS, 'series'];

const CHANGED: Record<string, readonly Part[]> = {
  metrics: ['run', 'tail'],
  gap: ['run', 'tail'],
  state: ['run', 'ranks', 'transitions', 'verdict', 'keys'], // polls end with the run
  eval: ['run', 'evals'],
  checkpoint: ['checkpoints'],
  alert: ['alerts'],
  log: [],
  artifact: [],
};

/// The parts to fetch after a server event.
export const partsOf = (event: string): readonly Part[] => CHANGED[event] ?? ALL_PARTS;

export class RunData {
  run: api.Run | null = null;
  runAtMs = 0; // when `run` was received, by this browser's clock
  ranksAtMs = 0;
  revision = 0; // grows with each load
  evals: api.Evaluation[] = [];
  ranks: api.Rank[] = [];
  checkpoints: api.Checkpoint[] = [];
  keys: api.MetricKey[] = [];
  verdict: api.Verdict | null = null;
  alerts: api.AlertItem[] = [];
  transitions: api.Transition[] = [];
  attempts: api.Attempt[] = [];
  trend: Trend | null = null; // of the loss; frozen while zoomed
  private wholeLoss: Series | null = null; // the loss of the whole run; frozen while zoomed
  readonly series: SeriesStore;

  /// `charted` returns the series that the charts in view need.
  constructor(
    readonly id: string,
    private readonly view: ViewState,
    charted: (data: RunData) => Iterable<string>,
  ) {
    this.series = new SeriesStore(id, () => new Set([...SUMMARY_KEYS, ...charted(this)]), SUMMARY_KEYS);
  }

  get startMs(): number {
    return this.run ? Date.parse(this.run.started_at ?? this.run.created_at) : 0;
  }

  /// The common prefix of the names of this run's saved files.
  get fileName(): string {
    return fileStem(this.run?.name || this.id);
  }

  get axis(): XAxis {
    return { mode: this.view.x, startMs: this.startMs, clock: this.series.clock };
  }

  /// The newest loss, smoothed like the charts.
  get smoothedLoss(): number | null {
    const smooth = ema(this.wholeLoss?.avg ?? [], this.view.smoothing).findLast((value) => value !== null);
    return smooth ?? this.run?.loss ?? null;
  }

  get window(): Window {
    return { axis: this.axis, range: this.view.range };
  }

  get(key: string, rank?: number): Series {
    return this.series.get(rank === undefined ? key : `${key}@${rank}`);
  }

  /// The currently best checkpoint. A checkpoint's own `best` says only that it was the best when written.
  get bestCheckpoint(): api.Checkpoint | undefined {
    const current = this.checkpoints.find(({ update }) => update === this.run?.best?.update);
    return current ?? this.checkpoints.find(({ best }) => best);
  }

  key(name: string): api.MetricKey | undefined {
    return this.keys.find(({ key }) => key === name);
  }

  /// Whether a key was ever non-zero: power is 0 if it is not measured.
  measures(name: string): boolean {
    const key = this.key(name);
    return key !== undefined && (key.max ?? 0) > 0;
  }

  /// The hosts, each with its lowest rank: all ranks of a host count the same interfaces.
  hosts(): { host: string; rank: number }[] {
    const first = new Map<string, number>();
    for (const { host, rank } of this.ranks) if (!first.has(host)) first.set(host, rank);
    return [...first].map(([host, rank]) => ({ host, rank }));
  }

  /// Loads facts in parallel, then series. The series of a new attempt replace the steps that it repeated. `told` receives the
  /// loaded fraction.
  async load(parts: ReadonlySet<Part>, told: (share: number) => void = () => undefined): Promise<void> {
    const attempt = this.run?.attempt;
    let done = 0;
    const loadFact = async (part: Part): Promise<void> => {
      if (part in this.loaders) await this.loaders[part as (typeof FACTS)[number]](`/runs/${this.id}`);
      told((done += 1) / (parts.size + 1));
    };
    await Promise.all([...parts].map(loadFact));
    const update = this.run?.update ?? 0;
    if (parts.has('series') || (attempt !== undefined && this.run?.attempt !== attempt))
      await this.series.load(this.window, update);
    else {
      if (parts.has('missing')) await this.series.loadMissing(this.window);
      if (parts.has('tail')) await this.series.loadTail(this.window, update);
    }
    if (!this.view.range) {
      this.wholeLoss = this.get('loss');
      this.trend = trendOf(this.wholeLoss.avg);
    }
    this.revision += 1;
  }

  private readonly loaders: Record<(typeof FACTS)[number], (path: string) => Promise<void>> = {
    run: async (path) => {
      this.run = await getJson<api.Run>(path);
      this.runAtMs = Date.now();
    },
    ranks: async (path) => {
      this.ranks = await getAll<api.Rank>(`${path}/ranks`);
      this.ranksAtMs = Date.now();
    },
    evals: async (path) => {
      this.evals = (await getAll<api.Evaluation>(`${path}/evals`)).sort((a, b) => a.update - b.update);
    },
    checkpoints: async (path) => void (this.checkpoints = await getAll<api.Checkpoint>(`${path}/checkpoints`)),
    keys: async (path) => void (this.keys = await getItems<api.MetricKey>(`${path}/metrics`)),
    verdict: async (path) => void (this.verdict = await getJson<api.Verdict>(`${path}/verdict`)),
    alerts: async () => void (this.alerts = await getItems<api.AlertItem>(`/alerts?run=${this.id}`)),
    transitions: async (path) => {
      const changes = getItems<api.Transition>(`${path}/transitions?limit=500`);
      [this.transitions, this.attempts] = await Promise.all([changes, getItems<api.Attempt>(`${path}/attempts`)]);
    },
  };
}
