import { getAll, getItems, getJson } from '../api/client';
import type { Difference, Evaluation, MetricKey, Run } from '../api/types';
import { curves, nonFiniteMarks, points } from '../charts/lines';
import type { ChartData } from '../charts/plot';
import { evalsOf, otherSets, setName } from '../data/runs';
import { SeriesStore, type Window } from '../data/series_store';
import type { XAxis } from '../lib/axes';
import { flatten } from '../lib/config_tree';
import { type Child, h } from '../lib/dom';
import { capital, EVAL_TITLES, evalKey, formatCount, formatOf, isEval } from '../lib/format';
import { listOf, MAX_RUNS, parseRunView, queryOf, runViewQuery, type ViewState } from '../lib/routes';
import { describeSampling, type Series } from '../lib/series';

/// The state of a comparison, as stored in its address.
export interface CompareState {
  runs: readonly string[]; // ids; the first is the baseline
  keys: readonly string[]; // metric keys, eval:MEASURE and eval:MEASURE@SET
  view: ViewState;
  same: boolean; // also shows configuration keys with equal values
  fold: boolean; // folds runs that differ in their seeds only
  over: string; // setting of the horizontal axis of the chart of scores; '': that with the most values
  asked: number; // number of runs in the address; only the first MAX_RUNS are compared
}

export const DEFAULT_KEYS: readonly string[] = [
  ...['loss', 'eval:loss', 'eval:sacrebleu', 'eval:chrf', 'target_tokens_per_second', 'step_ms'],
  ...['exposed_communication_ms', 'learning_rate', 'gradient_norm'],
];

export function parseCompare(query: URLSearchParams): CompareState {
  const keys = listOf(query.get('keys'));
  const runs = [...new Set(listOf(query.get('runs')))].filter((id) => /^\w+$/.test(id));
  return {
    runs: runs.slice(0, MAX_RUNS),
    asked: runs.length,
    keys: keys.length > 0 ? keys : DEFAULT_KEYS,
    view: parseRunView(query),
    same: query.get('same') === '1',
    fold: query.get('fold') !== '0',
    over: query.get('over') ?? '',
  };
}

/// Says that only the first runs are compared; '' if all are.
export const cutText = (asked: number): string => (asked > MAX_RUNS ? `The first ${MAX_RUNS} of ${asked} runs.` : '');

export function compareQuery({ runs, keys, same, fold, over, view }: CompareState): URLSearchParams {
  const shown = keys.join() !== DEFAULT_KEYS.join() && keys.join();
  const own = { runs: runs.join(), keys: shown, same: same && '1', fold: !fold && '0', over };
  return new URLSearchParams([...queryOf(own), ...new URLSearchParams(runViewQuery(view))]);
}

export class ComparedRun {
  run: Run | null = null;
  atMs = 0;
  drawn = false; // whether the data of its lines are loaded
  config: ReadonlyMap<string, string> = new Map();
  evals: Evaluation[] = []; // on all sets
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

  window(view: ViewState): Window {
    return { axis: this.axis(view), range: view.range };
  }

  /// Loads the run itself with its configuration.
  async loadRun(): Promise<void> {
    const run = await getJson<Run>(`/runs/${this.id}`);
    if (run.config !== this.run?.config) this.config = flatten(run.config ?? '');
    this.run = run;
    this.atMs = Date.now();
  }

  /// Loads the data of its lines.
  async loadLines(view: ViewState): Promise<void> {
    await Promise.all([this.loadFacts(), this.series.load(this.window(view), this.run?.update ?? 0)]);
    this.drawn = true;
  }

  /// Loads new data of a live run.
  async refresh(view: ViewState): Promise<void> {
    await Promise.all([this.loadRun(), this.drawn && this.loadFacts()]);
    if (this.drawn) await this.series.loadTail(this.window(view), this.run?.update ?? 0);
  }

  private async loadFacts(): Promise<void> {
    const path = `/runs/${this.id}`;
    const [evals, keys] = await Promise.all([
      getAll<Evaluation>(`${path}/evals`),
      getItems<MetricKey>(`${path}/metrics`),
    ]);
    this.evals = evals.sort((a, b) => a.update - b.update);
    this.keys = new Map(keys.map((item) => [item.key, item]));
  }
}

type Measure = keyof typeof EVAL_TITLES;
const EVAL_MEASURES = Object.keys(EVAL_TITLES) as Measure[];

/// The keys of the evaluations of these runs: eval:MEASURE, and eval:MEASURE@SET of the sets beside a validation set. An address
/// cannot have sets with a comma.
export function evalKeys(runs: readonly Pick<ComparedRun, 'evals'>[]): string[] {
  const beside = runs.flatMap(({ evals }) => {
    const sets = new Set(otherSets(evals).map(({ set }) => set));
    return evals.filter(({ set }) => sets.has(set) && !set.includes(','));
  });
  const measured = beside.flatMap((row) =>
    EVAL_MEASURES.filter((measure) => typeof row[measure] === 'number').map((measure) => `eval:${measure}@${row.set}`),
  );
  return [...EVAL_MEASURES.map((measure) => `eval:${measure}`), ...new Set(measured)];
}

export function titleOf(key: string): string {
  if (isEval(key)) {
    const { measure, set } = evalKey(key);
    const title = EVAL_TITLES[measure as Measure] ?? measure;
    return set ? `${title} on ${setName(set)}` : title;
  }
  const words = key
    .replace(/_ms$/, '')
    .replace(/_per_second$/, '/s')
    .replaceAll('_', ' ')
    .replace('memory bytes.', 'memory: ');
  return capital(words);
}

/// Whether a lower or a higher value is better; null if neither is.
export function betterOf(name: string): 'less' | 'more' | null {
  const key = isEval(name) ? `eval:${evalKey(name).measure}` : name;
  const more = ['eval:sacrebleu', 'eval:chrf', 'eval:teacher_forced_bleu', 'eval:accuracy', 'busy_fraction'];
  if (more.includes(key) || key.endsWith('tokens_per_second')) return 'more';
  if (/(^|:)(loss|nll|excess)$/.test(key) || key.endsWith('_ms')) return 'less';
  return null;
}

/// How a run's line looks; `alone`: with the band of its sampled values.
type LineLook = { label: string; color: string; alone: boolean };

/// One metric of a run. The last line has its values.
export function compareLine(
  run: ComparedRun,
  key: string,
  view: ViewState,
  { label, color, alone }: LineLook,
): ChartData {
  const [format, axis] = [formatOf(key), run.axis(view)];
  if (isEval(key)) {
    const measure = evalKey(key).measure as Measure;
    const rows = evalsOf(run.evals, key).filter((row) => row[measure] !== null && row[measure] !== undefined);
    return { lines: [points(axis, rows, measure, { label, color, format })], note: '', marks: [] };
  }
  const series = run.series.get(key);
  const lines = curves(axis, series, view.smoothing, { label, color, format, band: alone, raw: false });
  const note = series.step.length > 0 ? describeSampling(series, formatCount) : '';
  return { lines, marks: nonFiniteMarks(axis, series, `${run.name}: `), note };
}

/// The x values of all runs in the charts of these keys.
export function fullRange(runs: readonly ComparedRun[], keys: readonly string[], view: ViewState): [number, number] {
  const look = { label: '', color: '', alone: false };
  const raw = { ...view, smoothing: 0 };
  const lines = keys.flatMap((key) => runs.flatMap((run) => compareLine(run, key, raw, look).lines));
  const ends = lines.flatMap(({ x }) => (x.length > 0 ? [x[0]!, x.at(-1)!] : []));
  const from = view.x === 'wall' ? Math.min(...ends) : 0;
  const to = Math.max(...ends);
  return to > from ? [from, to] : [0, 1];
}

export type Best = { value: number; update: number };

/// The min or max of a series over all ranks. A sampled row covers several updates. The exact update is known only if the key's
/// summary, which covers one rank, has the same extreme.
function extreme(series: Series, better: 'less' | 'more', summary: MetricKey | undefined): Best | null {
  const more = better === 'more';
  const rows = (more ? series.max : series.min).flatMap((value, row): Best[] =>
    value === null ? [] : [{ value, update: series.step[row]! }],
  );
  const best = bestRow(rows, more);
  if (best && summary && best.value === (more ? summary.max : summary.min))
    best.update = more ? summary.max_step : summary.min_step;
  return best;
}

const bestRow = (rows: readonly Best[], more: boolean): Best | null =>
  rows.reduce<Best | null>((best, row) => {
    if (best === null || (more ? row.value > best.value : row.value < best.value)) return row;
    return best;
  }, null);

/// The best value of a metric over all ranks in the range shown, or the last value if neither lower nor higher is better; null
/// if the run has none.
export function bestOf(
  run: Pick<ComparedRun, 'evals' | 'keys'> & { series: { get(key: string): Series } },
  key: string,
): Best | null {
  const better = betterOf(key);
  if (isEval(key)) {
    const measure = evalKey(key).measure as keyof Evaluation;
    const rows = evalsOf(run.evals, key).flatMap((row): Best[] =>
      typeof row[measure] === 'number' ? [{ value: row[measure] as number, update: row.update }] : [],
    );
    return bestRow(rows, better === 'more');
  }
  const series = run.series.get(key);
  if (better) return extreme(series, better, run.keys.get(key));
  const last = series.avg.findLastIndex((value) => value !== null);
  return last < 0 ? null : { value: series.avg[last]!, update: series.step[last]! };
}

/// The index of the best value; -1 if there is none or all are equal.
export function winner(key: string, values: readonly (Best | null)[]): number {
  const better = betterOf(key);
  const known = values.filter((value) => value !== null).map(({ value }) => value);
  if (!better || new Set(known).size < 2) return -1;
  const best = better === 'more' ? Math.max(...known) : Math.min(...known);
  return values.findIndex((value) => value?.value === best);
}

/// Tells when the differences of the best validations may have changed: the runs and these validations. '' if there is nothing to compare.
export function bestsOf(runs: readonly Pick<ComparedRun, 'id' | 'run'>[]): string {
  return runs.length < 2 ? '' : runs.map(({ id, run }) => `${id}:${run?.best?.id ?? ''}`).join();
}

type DifferenceRow = { at: number; text: string };

/// How the best validations differ from the baseline's, in the words of the server, of the runs that are still compared.
export function differenceRows(
  runs: readonly Pick<ComparedRun, 'id' | 'name'>[],
  differences: readonly Pick<Difference, 'run' | 'text'>[],
): DifferenceRow[] {
  return differences.flatMap(({ run, text }) => {
    const at = runs.findIndex(({ id }) => id === run);
    return at < 0 ? [] : [{ at, text: `${runs[at]!.name}: ${text}` }];
  });
}

export type ConfigRow = { path: string; values: (string | null)[]; differs: boolean };

/// All configuration keys of the runs, differing keys first.
export function configRows(configs: readonly ReadonlyMap<string, string>[]): ConfigRow[] {
  const paths = [...new Set(configs.flatMap((config) => [...config.keys()]))].sort();
  const rows = paths.map((path): ConfigRow => {
    const values = configs.map((config) => config.get(path) ?? null);
    return { path, values, differs: values.some((value) => value !== values[0]) };
  });
  return [...rows.filter(({ differs }) => differs), ...rows.filter(({ differs }) => !differs)];
}

const OFFERED = 5;
type SetRuns = (ids: readonly string[]) => void;

/// Suggests the newest runs until there are two to compare.
export function offered(known: readonly Run[], compared: readonly string[], setRuns: SetRuns): Child {
  const free = known.filter(({ id, emulated }) => !emulated && !compared.includes(id)).slice(0, OFFERED);
  if (compared.length >= 2 || free.length === 0) return null;
  const add = ({ id, name }: Run): HTMLElement =>
    h('button.chip', { title: id, onclick: () => setRuns([...compared, id]) }, `+ ${name || id}`);
  return h('p.filters', h('span.muted', 'newest'), free.map(add));
}
