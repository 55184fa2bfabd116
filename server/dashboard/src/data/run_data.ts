import { getAll, getJson } from '../api/client';
import type {
  AlertItem,
  Attempt,
  Checkpoint,
  Evaluation,
  MetricKey,
  Rank,
  Run,
  Transition,
  Verdict,
} from '../api/types';
import { ema } from '../lib/ema';
import { fileStem } from '../lib/format';
import type { ViewState } from '../lib/run_view';
import type { Series } from '../lib/series';
import { trendOf, type Trend } from '../lib/trend';
import type { XAxis } from '../lib/x_axis';
import { SeriesStore, type Window } from './series_store';

export const PARTS = [
  'data_ms',
  'forward_ms',
  'backward_ms',
  'exposed_communication_ms',
  'optimizer_ms',
  'other_ms',
] as const;

/// The series that the summary needs, whichever charts are in view.
const SUMMARY_KEYS = ['loss', 'target_tokens_per_second'];

/// A separately fetched part of the data. `tail`: rows newer than the loaded ones; `series`: all needed series; `missing`: series
/// of charts that came into view.
export type Part =
  | 'run'
  | 'ranks'
  | 'evals'
  | 'checkpoints'
  | 'keys'
  | 'verdict'
  | 'alerts'
  | 'transitions'
  | 'tail'
  | 'missing'
  | 'series';

export const ALL_PARTS: readonly Part[] = [
  'run',
  'ranks',
  'evals',
  'checkpoints',
  'keys',
  'verdict',
  'alerts',
  'transitions',
  'series',
];

/// The parts to fetch after a server event.
export function partsOf(event: string): readonly Part[] {
  switch (event) {
    case 'metrics':
    case 'gap':
      return ['run', 'tail'];
    case 'state':
      return ['run', 'ranks', 'transitions', 'verdict', 'keys']; // polls end with the run
    case 'eval':
      return ['run', 'evals'];
    case 'checkpoint':
      return ['checkpoints'];
    case 'alert':
      return ['alerts'];
    case 'log':
    case 'artifact':
      return [];
    default:
      return ALL_PARTS;
  }
}

const itemsOf = async <T>(path: string): Promise<T[]> => (await getJson<{ items: T[] }>(path)).items;

/// All data of a run's page.
export class RunData {
  run: Run | null = null;
  runAtMs = 0; // when `run` was received, by this browser's clock
  ranksAtMs = 0;
  revision = 0; // grows with each load
  evals: Evaluation[] = [];
  ranks: Rank[] = [];
  checkpoints: Checkpoint[] = [];
  keys: MetricKey[] = [];
  verdict: Verdict | null = null;
  alerts: AlertItem[] = [];
  transitions: Transition[] = [];
  attempts: Attempt[] = [];
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
    return (
      (this.wholeLoss ? ema(this.wholeLoss.avg, this.view.smoothing).findLast((value) => value !== null) : null) ??
      this.run?.loss ??
      null
    );
  }

  get window(): Window {
    return { axis: this.axis, range: this.view.range };
  }

  get(key: string, rank?: number): Series {
    return this.series.get(rank === undefined ? key : `${key}@${rank}`);
  }

  /// The currently best checkpoint. A checkpoint's own `best` says only that it was the best when written.
  get bestCheckpoint(): Checkpoint | undefined {
    return (
      this.checkpoints.find(({ update }) => update === this.run?.best?.update) ??
      this.checkpoints.find(({ best }) => best)
    );
  }

  key(name: string): MetricKey | undefined {
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
    await Promise.all(
      [...parts].map(async (part) => {
        await this.loadFact(part);
        told((done += 1) / (parts.size + 1));
      }),
    );
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

  private async loadFact(part: Part): Promise<void> {
    const path = `/runs/${this.id}`;
    switch (part) {
      case 'run':
        this.run = await getJson<Run>(path);
        this.runAtMs = Date.now();
        break;
      case 'ranks':
        this.ranks = await getAll<Rank>(`${path}/ranks`);
        this.ranksAtMs = Date.now();
        break;
      case 'evals':
        this.evals = (await getAll<Evaluation>(`${path}/evals`)).sort((a, b) => a.update - b.update);
        break;
      case 'checkpoints':
        this.checkpoints = await getAll<Checkpoint>(`${path}/checkpoints`);
        break;
      case 'keys':
        this.keys = await itemsOf<MetricKey>(`${path}/metrics`);
        break;
      case 'verdict':
        this.verdict = await getJson<Verdict>(`${path}/verdict`);
        break;
      case 'alerts':
        this.alerts = await itemsOf<AlertItem>(`/alerts?run=${this.id}`);
        break;
      case 'transitions':
        [this.transitions, this.attempts] = await Promise.all([
          itemsOf<Transition>(`${path}/transitions?limit=500`),
          itemsOf<Attempt>(`${path}/attempts`),
        ]);
        break;
    }
  }
}
