import type { Run } from '../api/types';
import { formatDateTime, formatDuration, formatClock, formatPercent, formatTime } from './format';
import { staleForMs } from './freshness';

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
export function percentDone({ progress: { fraction } }: Pick<Run, 'progress'>): string {
  return fraction === null ? '' : formatPercent(fraction < 1 ? Math.min(fraction, 0.99) : 1, 0);
}

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
