-- Alerts and their rules.

-- The row with place 0 is not a rule: it marks that the default rules were stored once.
CREATE TABLE alert_rules (
  place INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, run TEXT NOT NULL DEFAULT '',
  enabled INTEGER NOT NULL DEFAULT 1, threshold REAL NOT NULL DEFAULT 0,
  hold_s REAL NOT NULL DEFAULT 0, clear_s REAL NOT NULL DEFAULT 0);

CREATE TABLE alerts (
  alert INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
  rule TEXT NOT NULL, kind TEXT NOT NULL,
  run TEXT NOT NULL,                  -- a run's id; empty: the server's own
  subject TEXT NOT NULL,              -- the rank or folder meant, or empty
  message TEXT NOT NULL, value REAL, threshold REAL,
  raised_ms INTEGER NOT NULL, cleared_ms INTEGER,
  acknowledged_ms INTEGER, acknowledged_by TEXT NOT NULL DEFAULT '');
CREATE INDEX alerts_by_run ON alerts(run, alert);
CREATE UNIQUE INDEX alerts_open ON alerts(rule, run, subject) WHERE cleared_ms IS NULL;  -- one fault, one alert
