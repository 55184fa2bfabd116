-- The end condition of a run; the alert rule about ranks that differ.

ALTER TABLE runs ADD COLUMN end_text TEXT NOT NULL DEFAULT '';         -- the end condition, as text; empty: unknown
ALTER TABLE runs ADD COLUMN may_end_sooner INTEGER NOT NULL DEFAULT 0; -- early stopping is enabled

-- Adds the rule to a database that has rules. A new database gets its rules from server/alerts.
INSERT OR IGNORE INTO alert_rules(place, name, kind, threshold)
  SELECT (SELECT max(place) FROM alert_rules) + 1, 'ranks-differ', 'ranks_differ', 1
  WHERE EXISTS (SELECT 1 FROM alert_rules);
-- Alerts of this kind affect a run's health even after they are cleared.
CREATE INDEX alerts_ranks_differ ON alerts(run) WHERE kind = 'ranks_differ';
