/// How one rank spent the updates of a trace, in ms. The parts but `hidden_ms` add up to the total.
export interface RankShares {
  rank: number;
  host: string;
  total_ms: number;
  compute_ms: number;
  exposed_ms: number;
  hidden_ms: number;
  data_ms: number;
  other_ms: number;
}

/// The content of a trace's artifact.
export interface TraceContent {
  first_update: number;
  updates: number;
  ops: boolean;
  request: number; // 0: the configuration asked for the trace
  ranks: RankShares[]; // empty if there are too many
}

/// The parts of an update: name, colour, and the part's ms.
export const SHARES = [
  ['compute', 'blue', 'compute_ms'],
  ['exposed communication', 'orange', 'exposed_ms'],
  ['waiting for data', 'violet', 'data_ms'],
  ['other', 'gray', 'other_ms'],
] as const;

const isShares = (value: unknown): value is RankShares =>
  typeof value === 'object' &&
  value !== null &&
  ['rank', 'total_ms', 'compute_ms', 'exposed_ms', 'hidden_ms', 'data_ms', 'other_ms'].every(
    (name) => typeof (value as Record<string, unknown>)[name] === 'number',
  );

/// Reads the content of an artifact, which the server passes on unchecked. Null if it is not that of a trace.
export function readTraceContent(content: unknown): TraceContent | null {
  const { first_update, updates, ops, request, ranks } = (content ?? {}) as Record<string, unknown>;
  if (typeof first_update !== 'number' || typeof updates !== 'number' || !Array.isArray(ranks)) return null;
  return {
    first_update,
    updates,
    ops: ops === true,
    request: typeof request === 'number' ? request : 0,
    ranks: ranks.filter(isShares),
  };
}

/// A part of the rank's time, from 0 to 1.
export const shareOf = (rank: RankShares, ms: number): number =>
  rank.total_ms > 0 ? Math.min(1, Math.max(0, ms / rank.total_ms)) : 0;
