import type { Run } from '../api/types';

const STALE_AFTER_MS = 60_000;  // as the server's stale_since

/// The age at `nowMs` of what had an age of `toldAgeMs` at `atMs`, by this browser's clock. The server tells ages, so that
/// the two clocks need not agree. A clock set back makes nothing younger than it was.
export function ageMs(toldAgeMs: number, atMs: number, nowMs: number): number {
  return toldAgeMs + Math.max(0, nowMs - atMs);
}

/// How long a running run has been silent, if that is so long that something must be wrong; else null.
export function staleForMs(run: Pick<Run, 'state' | 'record_age_ms'>, atMs: number, nowMs: number): number | null {
  const age = ageMs(run.record_age_ms, atMs, nowMs);
  return run.state === 'running' && age > STALE_AFTER_MS ? age : null;
}
