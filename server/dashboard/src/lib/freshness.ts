import type { Run } from '../api/types';

const STALE_AFTER_MS = 60_000; // same as for the server's stale_since
const SETTLED_MS = 5000; // after the last record of an ended run

/// The age at `nowMs` of a value that had the age `toldAgeMs` at `atMs`, by this browser's clock. The server reports ages, so the two
/// clocks need not agree. Never less than `toldAgeMs`, even if the clock was set back.
export function ageMs(toldAgeMs: number, atMs: number, nowMs: number): number {
  return toldAgeMs + Math.max(0, nowMs - atMs);
}

/// How long a running run has been silent, if longer than STALE_AFTER_MS; otherwise null.
export function staleForMs(run: Pick<Run, 'state' | 'record_age_ms'>, atMs: number, nowMs: number): number | null {
  const age = ageMs(run.record_age_ms, atMs, nowMs);
  return run.state === 'running' && age > STALE_AFTER_MS ? age : null;
}

/// Ended, and no record has come for a while: none is expected unless the run is resumed.
export function isSettled(
  run: Pick<Run, 'finished_at' | 'record_age_ms'> | null,
  atMs: number,
  nowMs: number,
): boolean {
  return Boolean(run?.finished_at) && ageMs(run!.record_age_ms, atMs, nowMs) > SETTLED_MS;
}
