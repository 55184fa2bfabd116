-- Pinned checkpoints, retention policies, compressed logs, summaries of long runs.

ALTER TABLE checkpoints ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;

-- The retention policy of a run's checkpoints (JSON) and the maximum size of its log.
CREATE TABLE retention (run INTEGER PRIMARY KEY, policy TEXT NOT NULL, max_log_bytes INTEGER);

-- The newest lines of a run's log; older ones are in blocks. Line numbers have no gaps.
CREATE TABLE log_lines (
  run INTEGER NOT NULL, line INTEGER NOT NULL, attempt INTEGER NOT NULL, rank INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, level TEXT NOT NULL, text TEXT NOT NULL,
  PRIMARY KEY (run, line)) WITHOUT ROWID;
CREATE TABLE log_blocks (
  block INTEGER PRIMARY KEY, run INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  raw_bytes INTEGER NOT NULL, bytes INTEGER NOT NULL, lowest_rank INTEGER NOT NULL, highest_rank INTEGER NOT NULL,
  levels INTEGER NOT NULL,            -- bits: debug, info, warn, error, others
  data BLOB NOT NULL,                 -- server/store/log_blocks.h, compressed by zstd
  UNIQUE (run, first));
INSERT INTO log_lines SELECT run, row_number() OVER (PARTITION BY run ORDER BY log), attempt, rank, time_ms, level, text
  FROM logs;
DROP TABLE logs;

-- Summaries of 512, 4096 and 32768 consecutive steps (levels 1, 2 and 3). Each combines eight summaries of the level
-- below; level 0 is the table `buckets`. Where a summary is missing, readers use the level below.
CREATE TABLE pyramid (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, attempt INTEGER NOT NULL, level INTEGER NOT NULL,
  bucket INTEGER NOT NULL, first_step INTEGER NOT NULL, last_step INTEGER NOT NULL, count INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, layout INTEGER NOT NULL, vals BLOB NOT NULL,
  PRIMARY KEY (run, rank, attempt, level, bucket)) WITHOUT ROWID;
