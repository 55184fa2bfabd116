-- The last minute of attempts: memory, load and temperature before each end or silence.

CREATE TABLE black_boxes (
  run INTEGER NOT NULL, attempt INTEGER NOT NULL,
  until_ms INTEGER NOT NULL,          -- newest sample, by the server's clock
  content TEXT NOT NULL,              -- JSON, see server/launch/heartbeats.h
  PRIMARY KEY (run, attempt)) WITHOUT ROWID;
