import type { ChartData, Line } from '../../charts/chart_data';
import { nonFiniteMarks } from '../../charts/lines';
import { ema } from '../../lib/ema';
import { formatCount } from '../../lib/format';
import { formatOf } from '../../lib/metric_format';
import type { ViewState } from '../../lib/run_view';
import { describeSampling } from '../../lib/series';
import { xColumn, xValue } from '../../lib/x_axis';
import { isEval, type ComparedRun } from './compared_run';

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
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/// Whether a lower or a higher value is better; null if neither is.
export function betterOf(key: string): 'less' | 'more' | null {
  if (
    ['eval:sacrebleu', 'eval:chrf', 'eval:teacher_forced_bleu', 'eval:accuracy', 'busy_fraction'].includes(key) ||
    /tokens_per_second$/.test(key)
  )
    return 'more';
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
    const line = (kind: Line['kind'], y: Line['y'], legend = false): Line => ({
      label: run.name,
      color: colorOf(at),
      kind,
      x,
      y,
      legend,
      format,
    });
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
  let from = Infinity;
  let to = -Infinity;
  for (const run of runs) {
    for (const { x } of compareLines([run], 'loss', { ...view, smoothing: 0 }).lines) {
      from = Math.min(from, x[0] ?? Infinity);
      to = Math.max(to, x.at(-1) ?? -Infinity);
    }
  }
  if (view.x !== 'wall') from = 0;
  return to > from ? [from, to] : [0, 1];
}
