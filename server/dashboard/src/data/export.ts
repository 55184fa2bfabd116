import { request } from '../api/request';
import type { Evaluation } from '../api/types';
import { saveText } from '../lib/save';

/// One series: its name, and its rows as the server wrote them.
export interface CsvPart {
  name: string; // KEY, or KEY@RANK
  csv: string; // step,time_ms,value
}

const quoted = (text: string): string => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

interface Row {
  time: string;
  values: string[];
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
  const rows = new Map<number, Row>();
  const rowAt = (step: number, time: string): Row => {
    let row = rows.get(step);
    if (!row) rows.set(step, (row = { time, values: [] }));
    return row;
  };
  parts.forEach(({ csv }, at) =>
    csv
      .split('\n')
      .slice(1)
      .filter(Boolean)
      .forEach((line) => {
        const [step = '', time = '', value = ''] = line.trim().split(',');
        rowAt(Number(step), time).values[at] = value;
      }),
  );
  for (const row of evals) {
    measured.forEach(({ measure, set }, at) => {
      if (row.set === set)
        rowAt(row.update, String(row.time_ms)).values[parts.length + at] = String(row[measure] ?? '');
    });
  }
  const heads = [
    'step',
    'time_ms',
    ...parts.map(({ name }) => name),
    ...measured.map(({ measure, set }) => quoted(`eval:${measure}@${set}`)),
  ];
  const columns = Array.from({ length: heads.length - 2 }, (_, at) => at);
  const lines = [...rows]
    .sort(([a], [b]) => a - b)
    .map(([step, { time, values }]) => [step, time, ...columns.map((at) => values[at] ?? '')].join(','));
  return [heads.join(','), ...lines, ''].join('\n');
}

async function everyValue(run: string, name: string): Promise<CsvPart> {
  const [key = '', rank = 'all'] = name.split('@');
  const response = await request(`/runs/${run}/metrics/${encodeURIComponent(key)}?agg=raw&format=csv&rank=${rank}`, {
    headers: { Accept: 'text/csv' },
  });
  return { name, csv: await response.text() };
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
  for (const name of names) parts.push(await everyValue(run, name));
  saveText(chartCsv(parts, evals, measures), `${file}.csv`, 'text/csv');
}
