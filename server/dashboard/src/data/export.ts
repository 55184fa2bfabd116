import { request } from '../api/request';
import type { Evaluation } from '../api/types';
import { saveText } from '../lib/save';

/// Rows of several keys under one another, each with the key and rank it belongs to; numbers stay the server's text.
export function joinCsv(parts: readonly { key: string; rank: string; csv: string }[]): string {
  const rows = parts.flatMap(({ key, rank, csv }) => csv.split('\n').slice(1).filter(Boolean).map((row) => `${key},${rank},${row}`));
  return ['key,rank,step,time_ms,value', ...rows, ''].join('\n');
}

const quoted = (text: string): string => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

export function evalsCsv(evals: readonly Evaluation[], columns: readonly (keyof Evaluation)[]): string {
  const heads = ['update', 'time_ms', 'set', ...columns] as const;
  return [heads.join(','), ...evals.map((row) => heads.map((head) => quoted(String(row[head] ?? ''))).join(',')), ''].join('\n');
}

async function everyValue(run: string, name: string): Promise<{ key: string; rank: string; csv: string }> {
  const [key = '', rank = 'all'] = name.split('@');
  const response = await request(`/runs/${run}/metrics/${encodeURIComponent(key)}?agg=raw&format=csv&rank=${rank}`, { headers: { Accept: 'text/csv' } });
  return { key, rank, csv: await response.text() };
}

/// Saves every stored value of a chart, not the sampled ones: one file for its series, one for what evaluations add.
export async function saveChartCsv(run: string, id: string, names: readonly string[], evals: readonly Evaluation[],
  columns: readonly (keyof Evaluation)[]): Promise<void> {
  const parts: { key: string; rank: string; csv: string }[] = [];
  for (const name of names) parts.push(await everyValue(run, name));
  if (parts.length > 0) saveText(parts.length === 1 ? parts[0]!.csv : joinCsv(parts), `${run}-${id}.csv`, 'text/csv');
  if (columns.length > 0 && evals.length > 0) saveText(evalsCsv(evals, columns), `${run}-${id}-evaluations.csv`, 'text/csv');
}
