/// Answers about a run that do not come from its records (server/api/openapi.yaml).

export interface Evidence {
  key: string;
  value: number | null;
  unit: string;
  share?: number | null;  // of a step, where it is one
}

export interface Verdict {
  verdict: string;
  sentence: string;
  advice: string;
  confidence: number;
  window?: { first_update: number; last_update: number } | null;
  evidence: Evidence[];
}

/// A change of a run's state.
export interface Transition {
  at: string;
  from: string | null;
  to: string;
  cause: string;
  actor: string;
  attempt: number;
}

export interface Alert {
  id: string;
  rule: string;
  kind: string;
  subject: string | null;   // the rank or folder meant
  message: string;
  state: 'open' | 'cleared';
  raised_at: string;
  cleared_at: string | null;
  acknowledged_at: string | null;
  acknowledged_by: string | null;
}

/// What heartbeats add to a rank, and what retention and the manifest add to a checkpoint.
export interface RankBeat { heartbeat_age_ms?: number | null; state?: string | null }
export interface CheckpointKept { pinned?: boolean; created_at?: string; bytes?: number; write_seconds?: number; world_size?: number }
