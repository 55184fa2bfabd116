import { getAll, getItems, getJson } from '../../api/client';
import type { Evaluation, MetricKey, Run } from '../../api/types';
import { nonFiniteMarks } from '../../charts/lines';
import type { ChartData, Line } from '../../charts/plot';
import { SeriesStore, type Window } from '../../data/series_store';
import { type XAxis, xColumn, xValue } from '../../lib/axes';
import { flatten } from '../../lib/config_tree';
import { capital, formatCount, formatOf, isEval } from '../../lib/format';
import { MAX_COMPARED, parseRunView, runViewQuery, type ViewState } from '../../lib/routes';
import { describeSampling, ema } from '../../lib/series';

/// The state of a comparison, as stored in its address.
export interface CompareState {
  runs: readonly string[]; // ids; the first is the baseline
  keys: readonly string[]; // metric keys, and eval:MEASURE
  view: ViewState;
  same: boolean; // also shows configuration keys with equal values
  asked: number; // number of runs in the address; only the first MAX_COMPARED are compared
}

export const DEFAULT_KEYS: readonly string[] = [
  'loss',
  'eval:loss',
  'eval:sacrebleu',
  'eval:chrf',
  'target_tokens_per_second',
  'step_ms',
  'exposed_communication_ms',
  'learning_rate',
  'gradient_norm',
];

const list = (text: string | null): string[] => (text ?? '').split(',').filter(Boolean);

export function parseCompare(query: URLSearchParams): CompareState {
  const keys = list(query.get('keys'));
  const runs = [...new Set(list(query.get('runs')))].filter((id) => /^\w+$/.test(id));
  return {
    runs: runs.slice(0, MAX_COMPARED),
    asked: runs.length,
    keys: keys.length > 0 ? keys : DEFAULT_KEYS,
    view: parseRunView(query),
    same: query.get('same') === '1',
  };
}

/// Says that only the first runs are compared; '' if all are.
export const cutText = (asked: number): string =>
  asked > MAX_COMPARED ? `The first ${MAX_COMPARED} of ${asked} runs: no more colours can be distinguished.` : '';

export function compareQuery(state: CompareState): URLSearchParams {
  const query = new URLSearchParams();
  if (state.runs.length > 0) query.set('runs', state.runs.join(','));
  if (state.keys.join() !== DEFAULT_KEYS.join()) query.set('keys', state.keys.join(','));
  if (state.same) query.set('same', '1');
  new URLSearchParams(runViewQuery(state.view)).forEach((value, name) => query.set(name, value));
  return query;
}

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

  window(view: ViewState): Window {
    return { axis: this.axis(view), range: view.range };
  }

  async load(view: ViewState): Promise<void> {
    await this.loadFacts();
    await this.series.load(this.window(view), this.run?.update ?? 0);
  }

  /// Loads new data of a live run.
  async refresh(view: ViewState): Promise<void> {
    await this.loadFacts();
    await this.series.loadTail(this.window(view), this.run?.update ?? 0);
  }

  private async loadFacts(): Promise<void> {
    const path = `/runs/${this.id}`;
    const [run, evals, keys] = await Promise.all([
      getJson<Run>(path),
      getAll<Evaluation>(`${path}/evals`),
      getItems<MetricKey>(`${path}/metrics`),
    ]);
    if (run.config !== this.run?.config) this.config = flatten(run.config ?? '');
    this.run = run;
    this.atMs = Date.now();
    this.evals = ofOneSet(evals.sort((a, b) => a.update - b.update));
    this.keys = new Map(keys.map((item) => [item.key, item]));
  }
}

const EVAL_TITLES = {
  loss: 'Validation loss',
  nll: 'Validation NLL',
  entropy: 'Entropy of the validation set',
  excess: 'Excess over entropy',
  sacrebleu: 'sacreBLEU',
  chrf: 'chrF',
  teacher_forced_bleu: 'BLEU, teacher-forced',
  accuracy: 'Accuracy, teacher-forced',
};
type Measure = keyof typeof EVAL_TITLES;
export const EVAL_MEASURES = Object.keys(EVAL_TITLES) as Measure[];

const BAND_RUNS = 3; // with more runs the bands would hide each other

const COLORS = ['blue', 'orange', 'teal', 'violet', 'bad', 'olive', 'pink', 'muted'];

export const colorOf = (at: number): string => COLORS[at]!;

export function titleOf(key: string): string {
  if (isEval(key)) return EVAL_TITLES[key.slice(5) as Measure] ?? key.slice(5);
  const words = key
    .replace(/_ms$/, '')
    .replace(/_per_second$/, '/s')
    .replaceAll('_', ' ')
    .replace('memory bytes.', 'memory: ');
  return capital(words);
}

/// Whether a lower or a higher value is better; null if neither is.
export function betterOf(key: string): 'less' | 'more' | null {
  const more = ['eval:sacrebleu', 'eval:chrf', 'eval:teacher_forced_bleu', 'eval:accuracy', 'busy_fraction'];
  if (more.includes(key) || key.endsWith('tokens_per_second')) return 'more';
  if (/(^|:)(loss|nll|excess)$/.test(key) || key.endsWith('_ms')) return 'less';
  return null;
}

function evalLine(run: ComparedRun, key: string, color: string, view: ViewState): Line {
  const axis = run.axis(view);
  const measure = key.slice(5) as Measure;
  const rows = run.evals.filter((row) => row[measure] !== null && row[measure] !== undefined);
  return {
    label: run.name,
    color,
    kind: 'points',
    legend: true,
    format: formatOf(key),
    x: rows.map((row) => xValue(axis, row.update, row.time_ms)),
    y: rows.map((row) => row[measure] ?? null),
  };
}

/// One metric of all runs, each in its own colour, with min/max bands of sampled series for up to BAND_RUNS runs.
export function compareLines(runs: readonly ComparedRun[], key: string, view: ViewState): ChartData {
  if (isEval(key)) return { lines: runs.map((run, at) => evalLine(run, key, colorOf(at), view)), note: '', marks: [] };
  const format = formatOf(key);
  const notes = new Set<string>();
  const marks: ChartData['marks'] = [];
  const lines = runs.flatMap((run, at): Line[] => {
    const series = run.series.get(key);
    const axis = run.axis(view);
    const x = xColumn(axis, series);
    const style = { label: run.name, color: colorOf(at), x, format };
    const line = (kind: Line['kind'], y: Line['y'], legend = false): Line => ({ ...style, kind, y, legend });
    if (series.step.length > 0) notes.add(describeSampling(series, formatCount));
    marks.push(...nonFiniteMarks(axis, series, `${run.name}: `));
    const band = series.sampled && runs.length <= BAND_RUNS ? [line('low', series.min), line('high', series.max)] : [];
    return [...band, line('line', ema(series.avg, view.smoothing), true)];
  });
  return {
    lines,
    marks,
    note: [...notes].join(' · ') + (view.smoothing > 0 && notes.size > 0 ? ` · smoothed ${view.smoothing}` : ''),
  };
}

/// The x values of all runs.
export function fullRange(runs: readonly ComparedRun[], view: ViewState): [number, number] {
  const lines = compareLines(runs, 'loss', { ...view, smoothing: 0 }).lines;
  const ends = lines.flatMap(({ x }) => (x.length > 0 ? [x[0]!, x.at(-1)!] : []));
  const from = view.x === 'wall' ? Math.min(...ends) : 0;
  const to = Math.max(...ends);
  return to > from ? [from, to] : [0, 1];
}
