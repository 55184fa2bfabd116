-- A database as the first release wrote it (schema 1): one run with two attempts' worth of rows in every table.
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

-- What arrived: disjoint ranges of sequence numbers. One row a rank unless something is missing.
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

-- Which key stands at which place of a step's values: '\n' between keys.
CREATE TABLE layouts (layout INTEGER PRIMARY KEY, keys TEXT NOT NULL UNIQUE);

-- Which layouts occur in a run.
CREATE TABLE run_layouts (run INTEGER NOT NULL, layout INTEGER NOT NULL, PRIMARY KEY (run, layout)) WITHOUT ROWID;

CREATE TABLE steps (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, attempt INTEGER NOT NULL, step INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, layout INTEGER NOT NULL, digest TEXT,
  vals BLOB NOT NULL,                 -- IEEE doubles, little-endian
  PRIMARY KEY (run, rank, attempt, step)) WITHOUT ROWID;

-- Summaries of 64 consecutive steps, made when the next 64 begin: a view of `steps` that may be rebuilt.
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

-- Every change of a run's state, with its cause.
CREATE TABLE lifecycle (
  event INTEGER PRIMARY KEY, run INTEGER NOT NULL, attempt INTEGER NOT NULL, rank INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, name TEXT NOT NULL, detail TEXT NOT NULL);
CREATE INDEX lifecycle_by_run ON lifecycle(run, event);

INSERT INTO runs(run, id, name, state, attempt, created_ms, updated_ms, started_ms, version, config, world_size, max_updates)
  VALUES (1, 'r_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E', 'old', 'running', 1, 1795233600000, 1795233700000, 1795233600000, '0.1.0',
          'seed: 1', 1, 200);
INSERT INTO ranks(run, attempt, rank, host, first_update, last_update, updated_ms) VALUES (1, 1, 0, 'hostA', 1, 100, 1795233700000);
INSERT INTO arrivals VALUES (1, 1, 0, 1, 100);
INSERT INTO layouts VALUES (1, 'loss');
INSERT INTO run_layouts VALUES (1, 1);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)
  INSERT INTO steps SELECT 1, 0, 1, i, 1795233600000 + i * 100, 1, NULL, x'0000000000000440' FROM n;  -- 2.5
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
  INSERT INTO logs(run, attempt, rank, time_ms, level, text)
  SELECT 1, 1, i % 2, 1795233600000 + i, CASE WHEN i % 100 = 0 THEN 'warn' ELSE 'info' END, 'line ' || i FROM n;
INSERT INTO checkpoints VALUES (1, 'c_01J8ZQ4T5W6X7Y8Z9A0B1C2D3E', 1, 'update-00000050', 50, 1795233650000,
  '/somewhere/update-00000050', '[{"name":"state.json","size":2,"sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"}]',
  31.5, 3.0, 1, 0, 0.5);
INSERT INTO lifecycle VALUES (1, 1, 1, 0, 1795233600000, 'started', 'from the beginning');
PRAGMA user_version = 1;
