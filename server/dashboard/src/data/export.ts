import { request } from '../api/client';
import type { Evaluation } from '../api/types';
import { saveText } from '../lib/dom';
import { evalKey, isEval } from '../lib/format';
import { evalsOf } from './runs';

/// One series: its name, KEY or KEY@RANK, and its rows as the server wrote them, "step,time_ms,value".
export type CsvPart = { name: string; csv: string };

const quoted = (text: string): string => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

const rowsOf = (csv: string): string[] =>
  csv
    .split('\n')
    .slice(1)
    .map((row) => row.trim())
    .filter(Boolean);

/// Every stored value of a metric as the server writes it; `rank` may be 'all'.
async function storedCsv(run: string, key: string, rank: string): Promise<string> {
  const path = `/runs/${run}/metrics/${encodeURIComponent(key)}?agg=raw&format=csv&rank=${rank}`;
  return (await request(path, { headers: { Accept: 'text/csv' } })).text();
}

/// One row per update, one column per series or measure of evaluations (eval:MEASURE@SET). Numbers of series keep the server's text;
/// a column without a value at an update stays empty.
export function chartCsv(
  parts: readonly CsvPart[],
  evals: readonly Evaluation[],
  measures: readonly (keyof Evaluation)[],
): string {
  const sets = [...new Set(evals.map(({ set }) => set))];
  const measured = measures
    .flatMap((measure) => sets.map((set) => ({ measure, set })))
    .filter(({ measure, set }) => evals.some((row) => row.set === set && row[measure] !== undefined));
  const rows = new Map<number, { time: string; values: string[] }>();
  const put = (step: number, time: string, column: number, value: string): void => {
    const row = rows.get(step) ?? { time, values: [] };
    row.values[column] = value;
    rows.set(step, row);
  };
  parts.forEach(({ csv }, at) => {
    for (const [step = '', time = '', value = ''] of rowsOf(csv).map((line) => line.split(',')))
      put(Number(step), time, at, value);
  });
  for (const row of evals) {
    measured.forEach(({ measure, set }, at) => {
      if (row.set === set) put(row.update, String(row.time_ms), parts.length + at, String(row[measure] ?? ''));
    });
  }
  const names = [
    ...parts.map(({ name }) => name),
    ...measured.map(({ measure, set }) => quoted(`eval:${measure}@${set}`)),
  ];
  const lines = [...rows]
    .sort(([a], [b]) => a - b)
    .map(([step, { time, values }]) => [step, time, ...names.map((_, at) => values[at] ?? '')].join(','));
  return [['step', 'time_ms', ...names].join(','), ...lines, ''].join('\n');
}

/// Saves every stored value of a chart, unsampled, in one file.
export async function saveChartCsv(
  run: string,
  file: string,
  names: readonly string[],
  evals: readonly Evaluation[],
  measures: readonly (keyof Evaluation)[],
): Promise<void> {
  const parts: CsvPart[] = [];
  for (const name of names) {
    const [key = '', rank = 'all'] = name.split('@');
    parts.push({ name, csv: await storedCsv(run, key, rank) });
  }
  saveText(chartCsv(parts, evals, measures), `${file}.csv`, 'text/csv');
}

/// A run of a comparison, as far as its file needs it.
type ComparedData = { id: string; name: string; evals: readonly Evaluation[]; keys: ReadonlyMap<string, unknown> };

const prefixed = ({ id, name }: { id: string; name: string }, key: string, rows: readonly string[]): string => {
  const front = [id, name, key].map(quoted).join(',');
  return rows.map((row) => `${front},${row}\n`).join('');
};

/// The server's rows, unchanged, each prefixed with its run and key.
export const comparisonRows = (run: { id: string; name: string }, key: string, csv: string): string =>
  prefixed(run, key, rowsOf(csv));

function evalRows(run: ComparedData, key: string): string {
  const measure = evalKey(key).measure as keyof Evaluation;
  const rows = evalsOf(run.evals, key).map((row) => `${row.update},${row.time_ms},${String(row[measure] ?? '')}`);
  return prefixed(run, key, rows);
}

/// Every stored value of the compared metrics, unsampled: run, name, key, update, time, value.
export async function comparisonCsv(
  runs: readonly ComparedData[],
  keys: readonly string[],
  progress: (done: number, all: number) => void,
): Promise<Blob> {
  const parts = ['run,name,key,step,time_ms,value\n'];
  let done = 0;
  for (const run of runs) {
    for (const key of keys) {
      progress(done++, runs.length * keys.length);
      if (isEval(key)) parts.push(evalRows(run, key));
      else if (run.keys.has(key)) parts.push(comparisonRows(run, key, await storedCsv(run.id, key, 'all')));
    }
  }
  return new Blob(parts, { type: 'text/csv' });
}
