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
  time: string;
  attempt: number;
  from: string | null;
  to: string;
  event: string;
  cause: string;
  actor: string;
}

/// One start of a run's ranks.
export interface Attempt {
  attempt: number;
  launcher: string;
  world_size: number | null;
  resumed_from: string | null;
  started_at: string | null;
  ended_at: string | null;
  exit_code: number | null;
  cause: string;
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

/// What heartbeats add to a rank, and what retention adds to a checkpoint.
export interface RankBeat { heartbeat_age_ms?: number | null; since_update_s?: number | null; resident_bytes?: number | null }
export interface CheckpointKept { pinned?: boolean; created_at?: string }

/// How the server came by a run: "external" was started by hand.
export interface RunLaunch { profile?: string | null }
