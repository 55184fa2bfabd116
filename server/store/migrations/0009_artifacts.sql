-- Files that tools wrote into the folder lab of a run.

CREATE TABLE artifacts (
  artifact INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, run INTEGER NOT NULL,
  attempt INTEGER NOT NULL, rank INTEGER NOT NULL, name TEXT NOT NULL,
  kind TEXT NOT NULL, step INTEGER NOT NULL, created_ms INTEGER NOT NULL,
  folder TEXT NOT NULL, size INTEGER NOT NULL, sha256 TEXT NOT NULL, removed INTEGER NOT NULL DEFAULT 0,
  content_bytes INTEGER NOT NULL,
  content TEXT NOT NULL,              -- JSON; empty: none
  UNIQUE (run, name));
CREATE INDEX artifacts_by_run ON artifacts(run, step, artifact);
