import type { Evaluation, Run } from '../api/types';
import { evalKey, formatClock, formatDateTime, formatDuration, formatPercent, formatTime } from '../lib/format';

/// The parts of an update: key of the metric, label in charts, name in a text, colour.
export const STEP_PARTS = [
  { key: 'data_ms', label: 'data', name: 'waiting for data', color: 'violet' },
  { key: 'forward_ms', label: 'forward', name: 'forward', color: 'blue' },
  { key: 'backward_ms', label: 'backward', name: 'backward', color: 'navy' },
  { key: 'exposed_communication_ms', label: 'exposed communication', name: 'exposed communication', color: 'orange' },
  { key: 'optimizer_ms', label: 'optimizer', name: 'optimizer', color: 'teal' },
  { key: 'other_ms', label: 'other', name: 'other', color: 'gray' },
] as const;

const STALE_AFTER_MS = 60_000; // same as for the server's stale_since
const SETTLED_MS = 5000; // after the last record of an ended run

/// The age at `nowMs` of a value that had the age `toldAgeMs` at `atMs`, by this browser's clock. The server reports ages, so the two
/// clocks need not agree. Never less than `toldAgeMs`, even if the clock was set back.
export const ageMs = (toldAgeMs: number, atMs: number, nowMs: number): number => toldAgeMs + Math.max(0, nowMs - atMs);

/// How long a running run has been silent, if longer than STALE_AFTER_MS; otherwise null.
export function staleForMs(run: Pick<Run, 'state' | 'record_age_ms'>, atMs: number, nowMs: number): number | null {
  const age = ageMs(run.record_age_ms, atMs, nowMs);
  return run.state === 'running' && age > STALE_AFTER_MS ? age : null;
}

/// How long the run has taken, until its end or `nowMs`. The server takes its records by their own clock and tells the newest one's
/// age by its own; no time of one clock is subtracted from another's.
export const takenSeconds = (
  run: Pick<Run, 'elapsed_seconds' | 'finished_at' | 'record_age_ms'>,
  atMs: number,
  nowMs: number,
): number => (run.elapsed_seconds ?? 0) + (run.finished_at ? 0 : ageMs(run.record_age_ms, atMs, nowMs) / 1000);

/// Ended, and no record has come for a while: none is expected unless the run is resumed.
export const isSettled = (
  run: Pick<Run, 'finished_at' | 'record_age_ms'> | null,
  atMs: number,
  nowMs: number,
): boolean => Boolean(run?.finished_at) && ageMs(run!.record_age_ms, atMs, nowMs) > SETTLED_MS;

/// The action text of a run that the server can resume.
export const RESUME = 'Resume';

/// Converts UTC times in a server's sentence to local time, without the date if it is today's.
export const localTimes = (text: string, nowMs = Date.now()): string =>
  text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d[\d:.]*Z/g, (time) => {
    const local = formatTime(time);
    const [today] = formatDateTime(nowMs).split(' ');
    return local.startsWith(`${today} `) ? local.slice(-5) : local;
  });

/// Whether the run is running and has reported recently.
export const isLive = (run: Run, atMs: number, nowMs: number): boolean =>
  run.state === 'running' && staleForMs(run, atMs, nowMs) === null;

/// "62 %"; '' if unknown. Never rounded up to 100 %.
export const percentDone = ({ progress: { fraction } }: Pick<Run, 'progress'>): string =>
  fraction === null ? '' : formatPercent(fraction < 1 ? Math.min(fraction, 0.99) : 1, 0);

/// "7 min left", "at most 7 min left"; '' if unknown. Rounded up to minutes above one minute.
export function timeLeft({ progress: { seconds_left: left, at_latest: atLatest } }: Pick<Run, 'progress'>): string {
  if (left === null) return '';
  const text =
    left < 60 ? formatDuration(left) : formatDuration(Math.ceil(left / 60) * 60).replace(/ 0+ (s|min|h)$/, '');
  return `${atLatest ? 'at most ' : ''}${text} left`;
}

/// "7 min left (12:20)": with the time of the end, or its date if it is more than 20 hours away.
export function timeLeftUntil(run: Pick<Run, 'progress'>, nowMs: number): string {
  const left = run.progress.seconds_left;
  if (left === null) return '';
  const endMs = nowMs + left * 1000;
  return `${timeLeft(run)} (${left < 72_000 ? formatClock(endMs).slice(0, 5) : formatDateTime(endMs)})`;
}

/// The set of the evaluations of a sample of the training set (validation.train_sample).
const TRAIN_SAMPLE = 'train';

/// The name of a set for readers.
export const setName = (set: string): string => (set === TRAIN_SAMPLE ? 'training sample' : set);

/// The newest evaluation of each set other than the validation set, which is the set of the first evaluation.
export function otherSets<Row extends Pick<Evaluation, 'set' | 'time_ms'>>(evals: readonly Row[]): Row[] {
  const inTime = evals.toSorted((a, b) => a.time_ms - b.time_ms);
  const newest = new Map(inTime.map((row) => [row.set, row]));
  newest.delete(inTime[0]?.set ?? '');
  return [...newest.values()];
}

/// Keeps the evaluations of the set that was evaluated most often (of several such sets the first), which is the validation set.
export function ofOneSet<Row extends Pick<Evaluation, 'set'>>(evals: readonly Row[]): Row[] {
  const times = new Map<string, number>();
  for (const { set } of evals) times.set(set, (times.get(set) ?? 0) + 1);
  const [most] = [...times].sort(([, a], [, b]) => b - a);
  return evals.filter(({ set }) => set === most?.[0]);
}

/// The evaluations that belong on the curve of eval:MEASURE, those on the validation set, or of eval:MEASURE@SET.
export function evalsOf<Row extends Pick<Evaluation, 'set'>>(evals: readonly Row[], key: string): Row[] {
  const { set } = evalKey(key);
  return set ? evals.filter((row) => row.set === set) : ofOneSet(evals);
}
