import { getAll, getJson, getSeries, type SeriesRange } from '../api/client';
import type { Checkpoint, Evaluation, LogLine, Rank, Run } from '../api/types';
import { appendTail, emptySeries, nextStep, type Series } from '../lib/series';
import type { ViewState } from '../lib/view_state';

export const PARTS = ['data_ms', 'forward_ms', 'backward_ms', 'exposed_communication_ms', 'optimizer_ms', 'other_ms'] as const;

const KEYS = ['loss', 'target_tokens_per_second', 'learning_rate', 'gradient_norm', 'step_ms', ...PARTS];
const MOST_ROWS = 2400;  // a series grown past this by live rows is sampled anew

/// What is fetched on its own. `tail` is what is newer than the rows already here, `series` all of it.
export type Part = 'run' | 'ranks' | 'evals' | 'checkpoints' | 'logs' | 'tail' | 'series';

export const ALL_PARTS: readonly Part[] = ['run', 'ranks', 'evals', 'checkpoints', 'logs', 'series'];

/// What an event of the server says is new.
export function partsOf(event: string): readonly Part[] {
  switch (event) {
    case 'metrics': case 'gap': return ['run', 'ranks', 'tail'];
    case 'state': return ['run', 'ranks'];
    case 'eval': return ['run', 'evals'];
    case 'checkpoint': return ['checkpoints'];
    case 'log': return ['logs'];
    default: return ALL_PARTS;
  }
}

/// Everything the page shows of one run. Series are told apart by key, or key@rank.
export class RunData {
  run: Run | null = null;
  runAtMs = 0;    // when these came, by this browser's clock
  ranksAtMs = 0;
  revision = 0;   // grows with each load
  evals: Evaluation[] = [];
  ranks: Rank[] = [];
  checkpoints: Checkpoint[] = [];
  logs: LogLine[] = [];
  private series = new Map<string, Series>();
  private generation = 0;

  constructor(readonly id: string) {}

  get startMs(): number {
    return this.run ? Date.parse(this.run.started_at) : 0;
  }

  get(key: string, rank?: number): Series {
    return this.byName(rank === undefined ? key : `${key}@${rank}`);
  }

  /// The lowest rank of each host: every rank of a host counts the same interfaces.
  hosts(): { host: string; rank: number }[] {
    const first = new Map<string, number>();
    for (const { host, rank } of this.ranks) if (!first.has(host)) first.set(host, rank);
    return [...first].map(([host, rank]) => ({ host, rank }));
  }

  /// Facts at once, then series: those of a new attempt replace the steps that it did again.
  async load(parts: ReadonlySet<Part>, view: ViewState): Promise<void> {
    const attempt = this.run?.attempt;
    await Promise.all([...parts].map((part) => this.loadFact(part)));
    if (parts.has('series') || (attempt !== undefined && this.run?.attempt !== attempt)) await this.loadSeries(view);
    else if (parts.has('tail')) await this.loadTail(view);
    this.revision += 1;
  }

  private async loadFact(part: Part): Promise<void> {
    const path = `/runs/${this.id}`;
    if (part === 'run') {
      this.run = await getJson<Run>(path);
      this.runAtMs = Date.now();
    } else if (part === 'ranks') {
      this.ranks = (await getJson<{ items: Rank[] }>(`${path}/ranks`)).items;
      this.ranksAtMs = Date.now();
    } else if (part === 'evals') {
      this.evals = (await getAll<Evaluation>(`${path}/evals`)).sort((a, b) => a.update - b.update);
    } else if (part === 'checkpoints') {
      this.checkpoints = await getAll<Checkpoint>(`${path}/checkpoints`);
    } else if (part === 'logs') {
      this.logs = (await getJson<{ items: LogLine[] }>(`${path}/logs?tail=200`)).items;
    }
  }

  /// All series anew, of the view's range: a zoom gets finer data.
  async loadSeries(view: ViewState): Promise<void> {
    const generation = ++this.generation;
    const loaded = await getSeries(this.id, this.wanted(), this.requestRange(view));
    if (generation === this.generation) this.series = loaded;
  }

  private async loadTail(view: ViewState): Promise<void> {
    if (view.range) return;
    const generation = this.generation;
    const names = this.wanted();
    const newer = await getSeries(this.id, names, { x: 'step', from: nextStep(names.map((name) => this.byName(name))) });
    if (generation !== this.generation) return;
    let incomplete = false;  // a series that was empty may begin before `from`
    for (const [name, tail] of newer) {
      const before = this.byName(name);
      incomplete ||= before.step.length === 0 && tail.step.length > 0;
      this.series.set(name, appendTail(before, tail));
    }
    if (incomplete || this.get('loss').step.length > MOST_ROWS) await this.loadSeries(view);
  }

  private byName(name: string): Series {
    return this.series.get(name) ?? emptySeries();
  }

  private wanted(): string[] {
    const network = this.hosts().flatMap(({ rank }) =>
      [`network_rx_bytes_per_second@${rank}`, `network_tx_bytes_per_second@${rank}`]);
    return [...KEYS, ...network];
  }

  private requestRange(view: ViewState): SeriesRange {
    if (!view.range) return { x: 'step' };
    const [from, to] = view.range;
    if (view.x === 'update') return { x: 'step', from: Math.max(0, Math.floor(from)), to: Math.ceil(to) };
    const origin = view.x === 'elapsed' ? this.startMs : 0;
    return { x: 'wall', from: Math.floor(from * 1000 + origin), to: Math.ceil(to * 1000 + origin) };
  }
}
