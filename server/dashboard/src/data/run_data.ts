import { getAll, getJson, getSeries, type SeriesRequest } from '../api/client';
import type { Checkpoint, Evaluation, LogLine, Rank, Run } from '../api/types';
import { appendTail, emptySeries, type Series } from '../lib/series';
import type { ViewState } from '../lib/view_state';

export const PARTS = ['data_ms', 'forward_ms', 'backward_ms', 'exposed_communication_ms', 'optimizer_ms', 'other_ms'] as const;

const KEYS = ['loss', 'target_tokens_per_second', 'learning_rate', 'gradient_norm', 'step_ms', ...PARTS];
const MOST_ROWS = 2400;  // a series grown past this by live rows is sampled anew

/// Everything the page shows of one run. Series are told apart by key, or key@rank.
export class RunData {
  run: Run | null = null;
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
    return this.series.get(rank === undefined ? key : `${key}@${rank}`) ?? emptySeries();
  }

  /// The lowest rank of each host: every rank of a host counts the same interfaces.
  hosts(): { host: string; rank: number }[] {
    const first = new Map<string, number>();
    for (const { host, rank } of this.ranks) if (!first.has(host)) first.set(host, rank);
    return [...first].map(([host, rank]) => ({ host, rank }));
  }

  async loadFacts(): Promise<void> {
    const path = `/runs/${this.id}`;
    const [run, evals, ranks, checkpoints, logs] = await Promise.all([
      getJson<Run>(path), getAll<Evaluation>(`${path}/evals`), getJson<{ items: Rank[] }>(`${path}/ranks`),
      getAll<Checkpoint>(`${path}/checkpoints`), getJson<{ items: LogLine[] }>(`${path}/logs?tail=200`)]);
    this.run = run;
    this.evals = evals.sort((a, b) => a.update - b.update);
    this.ranks = ranks.items;
    this.checkpoints = checkpoints;
    this.logs = logs.items;
  }

  /// All series anew, of the view's range: a zoom gets finer data.
  async loadSeries(view: ViewState): Promise<void> {
    const generation = ++this.generation;
    const range = this.requestRange(view);
    const loaded = await Promise.all(this.wanted().map(async (want) =>
      [want.name, await getSeries({ ...want.request, ...range })] as const));
    if (generation === this.generation) this.series = new Map(loaded);
  }

  /// Only what is newer than the rows already here.
  async loadTail(view: ViewState): Promise<void> {
    if (view.range) return;
    const generation = this.generation;
    const newer = await Promise.all(this.wanted().map(async ({ name, request }) => {
      const from = (this.series.get(name)?.step.at(-1) ?? 0) + 1;
      return [name, await getSeries({ ...request, from })] as const;
    }));
    if (generation !== this.generation) return;
    for (const [name, tail] of newer) this.series.set(name, appendTail(this.series.get(name) ?? emptySeries(), tail));
    if (this.get('loss').step.length > MOST_ROWS) await this.loadSeries(view);
  }

  private wanted(): { name: string; request: SeriesRequest }[] {
    const base = { run: this.id, x: 'step' as const };
    const network = this.hosts().flatMap(({ rank }) =>
      ['network_rx_bytes_per_second', 'network_tx_bytes_per_second'].map((key) =>
        ({ name: `${key}@${rank}`, request: { ...base, key, rank } })));
    return [...KEYS.map((key) => ({ name: key, request: { ...base, key } })), ...network];
  }

  private requestRange(view: ViewState): Partial<SeriesRequest> {
    if (!view.range) return {};
    const [from, to] = view.range;
    if (view.x === 'update') return { from: Math.max(0, Math.floor(from)), to: Math.ceil(to) };
    const origin = view.x === 'elapsed' ? this.startMs : 0;
    return { x: 'wall', from: Math.floor(from * 1000 + origin), to: Math.ceil(to * 1000 + origin) };
  }
}
