import { getAll, getJson } from '../../api/client';
import type { Evaluation, MetricKey, Run } from '../../api/types';
import { SeriesStore } from '../../data/series_store';
import { flatten } from '../../lib/config_tree';
import type { ViewState } from '../../lib/run_view';
import type { XAxis } from '../../lib/x_axis';

export const isEval = (key: string): boolean => key.startsWith('eval:');

/// Keeps the evaluations of the set that was evaluated most often (of several such sets the first), which is the validation set. Other
/// sets do not belong on its curve.
export function ofOneSet<Row extends Pick<Evaluation, 'set'>>(evals: readonly Row[]): Row[] {
  const times = new Map<string, number>();
  for (const { set } of evals) times.set(set, (times.get(set) ?? 0) + 1);
  const [most] = [...times].sort(([, a], [, b]) => b - a);
  return evals.filter(({ set }) => set === most?.[0]);
}

/// The data of one run in a comparison.
export class ComparedRun {
  run: Run | null = null;
  atMs = 0;
  config: ReadonlyMap<string, string> = new Map();
  evals: Evaluation[] = [];
  keys: ReadonlyMap<string, MetricKey> = new Map();
  readonly series: SeriesStore;

  constructor(
    readonly id: string,
    wanted: () => ReadonlySet<string>,
  ) {
    this.series = new SeriesStore(id, wanted, []);
  }

  get name(): string {
    return this.run?.name || this.id;
  }

  axis(view: ViewState): XAxis {
    return { mode: view.x, startMs: this.run ? Date.parse(this.run.started_at) : 0, clock: this.series.clock };
  }

  async load(view: ViewState): Promise<void> {
    await this.loadFacts();
    await this.loadSeries(view);
  }

  async loadSeries(view: ViewState): Promise<void> {
    await this.series.load({ axis: this.axis(view), range: view.range }, this.run?.update ?? 0);
  }

  /// Loads new data of a live run.
  async refresh(view: ViewState): Promise<void> {
    await this.loadFacts();
    await this.series.loadTail({ axis: this.axis(view), range: view.range }, this.run?.update ?? 0);
  }

  private async loadFacts(): Promise<void> {
    const path = `/runs/${this.id}`;
    const [run, evals, keys] = await Promise.all([
      getJson<Run>(path),
      getAll<Evaluation>(`${path}/evals`),
      getJson<{ items: MetricKey[] }>(`${path}/metrics`),
    ]);
    if (run.config !== this.run?.config) this.config = flatten(run.config ?? '');
    this.run = run;
    this.atMs = Date.now();
    this.evals = ofOneSet(evals.sort((a, b) => a.update - b.update));
    this.keys = new Map(keys.items.map((item) => [item.key, item]));
  }
}
