import { request } from '../../api/request';
import { isEval, type ComparedRun } from './compared_run';

const quoted = (text: string): string => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/// The server's rows, unchanged, each prefixed with its run and key.
export function comparisonRows(run: { id: string; name: string }, key: string, csv: string): string {
  const front = [run.id, run.name, key].map(quoted).join(',');
  return csv
    .split('\n')
    .slice(1)
    .filter((row) => row.trim() !== '')
    .map((row) => `${front},${row.trim()}\n`)
    .join('');
}

function evalRows(run: ComparedRun, key: string): string {
  const front = [run.id, run.name, key].map(quoted).join(',');
  return run.evals
    .map(
      (row) =>
        `${front},${row.update},${row.time_ms},${(row as unknown as Record<string, unknown>)[key.slice(5)] ?? ''}\n`,
    )
    .join('');
}

/// Every stored value of the compared metrics, unsampled: run, name, key, update, time, value.
export async function comparisonCsv(
  runs: readonly ComparedRun[],
  keys: readonly string[],
  progress: (done: number, all: number) => void,
): Promise<Blob> {
  const parts = ['run,name,key,step,time_ms,value\n'];
  let done = 0;
  for (const run of runs) {
    for (const key of keys) {
      progress(done++, runs.length * keys.length);
      if (isEval(key)) parts.push(evalRows(run, key));
      else if (run.keys.has(key)) {
        const answer = await request(`/runs/${run.id}/metrics/${encodeURIComponent(key)}?agg=raw&format=csv`, {
          headers: { Accept: 'text/csv' },
        });
        parts.push(comparisonRows(run, key, await answer.text()));
      }
    }
  }
  return new Blob(parts, { type: 'text/csv' });
}
