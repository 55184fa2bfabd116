-- Runs, their ranks and all that ranks report.

CREATE TABLE runs (
  run INTEGER PRIMARY KEY,            -- creation order; pages go by it
  id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL DEFAULT '',
  state TEXT NOT NULL,
  detail TEXT NOT NULL DEFAULT '',
  attempt INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,        -- this server's clock
  updated_ms INTEGER NOT NULL,        -- when the last record came, this server's clock
  started_ms INTEGER NOT NULL,        -- the first record's own time
  finished_ms INTEGER,
  version TEXT NOT NULL DEFAULT '',
  config TEXT NOT NULL DEFAULT '',
  world_size INTEGER NOT NULL DEFAULT 0,
  parameters INTEGER NOT NULL DEFAULT 0,
  max_updates INTEGER NOT NULL DEFAULT 0);
CREATE INDEX runs_by_state ON runs(state, run);

-- The sequence numbers of the records received from each rank, as disjoint ranges: one row unless a number is missing.
CREATE TABLE arrivals (
  run INTEGER NOT NULL, attempt INTEGER NOT NULL, rank INTEGER NOT NULL,
  first INTEGER NOT NULL, last INTEGER NOT NULL,
  PRIMARY KEY (run, attempt, rank, first)) WITHOUT ROWID;

CREATE TABLE ranks (
  run INTEGER NOT NULL, attempt INTEGER NOT NULL, rank INTEGER NOT NULL,
  host TEXT NOT NULL DEFAULT '', pid INTEGER NOT NULL DEFAULT 0, device TEXT NOT NULL DEFAULT '',
  first_update INTEGER NOT NULL DEFAULT 0, last_update INTEGER NOT NULL DEFAULT 0,
  updated_ms INTEGER NOT NULL,
  PRIMARY KEY (run, attempt, rank)) WITHOUT ROWID;

-- The metric keys of a step's values, in order, separated by '\n'.
CREATE TABLE layouts (layout INTEGER PRIMARY KEY, keys TEXT NOT NULL UNIQUE);

-- The layouts that occur in a run.
CREATE TABLE run_layouts (run INTEGER NOT NULL, layout INTEGER NOT NULL, PRIMARY KEY (run, layout)) WITHOUT ROWID;

CREATE TABLE steps (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, attempt INTEGER NOT NULL, step INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, layout INTEGER NOT NULL, digest TEXT,
  vals BLOB NOT NULL,                 -- IEEE doubles, little-endian
  PRIMARY KEY (run, rank, attempt, step)) WITHOUT ROWID;

-- Summaries of 64 consecutive steps, written when the next 64 begin. They can be rebuilt from `steps`.
CREATE TABLE buckets (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, attempt INTEGER NOT NULL, bucket INTEGER NOT NULL,
  first_step INTEGER NOT NULL, last_step INTEGER NOT NULL, count INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, layout INTEGER NOT NULL, vals BLOB NOT NULL,
  PRIMARY KEY (run, rank, attempt, bucket)) WITHOUT ROWID;

CREATE TABLE evals (
  eval INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, run INTEGER NOT NULL,
  attempt INTEGER NOT NULL, step INTEGER NOT NULL, time_ms INTEGER NOT NULL, body TEXT NOT NULL,
  samples TEXT NOT NULL, sample_count INTEGER NOT NULL,
  sacrebleu REAL, best INTEGER NOT NULL);
CREATE INDEX evals_by_run ON evals(run, eval);

CREATE TABLE checkpoints (
  checkpoint INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, run INTEGER NOT NULL,
  name TEXT NOT NULL, step INTEGER NOT NULL, created_ms INTEGER NOT NULL,
  folder TEXT NOT NULL, files TEXT NOT NULL,
  sacrebleu REAL, loss REAL, best INTEGER NOT NULL, removed INTEGER NOT NULL, write_seconds REAL,
  UNIQUE (run, name));
CREATE INDEX checkpoints_by_run ON checkpoints(run, step, checkpoint);

CREATE TABLE logs (
  log INTEGER PRIMARY KEY, run INTEGER NOT NULL, attempt INTEGER NOT NULL, rank INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, level TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX logs_by_run ON logs(run, log);

-- The lifecycle events that ranks have reported.
CREATE TABLE lifecycle (
  event INTEGER PRIMARY KEY, run INTEGER NOT NULL, attempt INTEGER NOT NULL, rank INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, name TEXT NOT NULL, detail TEXT NOT NULL);
CREATE INDEX lifecycle_by_run ON lifecycle(run, event);
