/// The server's answers (server/api/openapi.yaml). A number that was not finite is null.
export interface Evaluation {
  id: string; time_ms: number; update: number; set: string;
  loss: number | null; nll: number | null; sacrebleu: number | null; chrf: number | null; accuracy: number | null;
  signature: string; seconds: number; best: boolean; sample_count: number;
  samples?: { source: string; reference: string; hypothesis: string }[];
}

export interface Run {
  id: string; name: string; state: string; detail: string; version: string; attempt: number;
  created_at: string; started_at: string; updated_at: string; finished_at: string | null; stale_since: string | null;
  record_age_ms: number; world_size: number; hosts: string[]; parameters: number; max_updates: number; update: number;
  epoch: number | null; loss: number | null; learning_rate: number | null; step_ms: number | null;
  target_tokens_per_second: number | null; eta_seconds: number | null;
  best: Evaluation | null; last_eval: Evaluation | null;
  config?: string; notes?: string; archived?: boolean; labels?: Record<string, string>; profile?: string; restarts?: number | null;
  max_restarts?: number | null; deleted_at?: string | null;
}

export interface Rank {
  rank: number; host: string; pid: number; device: string; update: number; missing: number; record_age_ms: number;
  step_ms: number | null; target_tokens_per_second: number | null; exposed_communication_ms?: number | null;
  busy_fraction: number | null;
}

export interface Checkpoint {
  id: string; update: number; name: string; best: boolean; sacrebleu: number | null; loss: number | null;
  files: { name: string; size: number; sha256: string }[];
}

export interface LogLine { rank: number; time: string; level: string; text: string }

export interface SeriesAnswer {
  total: number; sampled: boolean; step: number[]; time_ms: number[];
  value?: (number | null)[]; avg?: (number | null)[]; min?: (number | null)[]; max?: (number | null)[];
  non_finite: { step: number; kind: string }[];
}

export interface MetricKey {
  key: string; aggregate: string; count: number; first: number | null; last: number | null;
  min: number | null; min_step: number; max: number | null; max_step: number;
}
