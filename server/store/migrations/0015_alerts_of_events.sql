-- Alerts about events of runs (restarted, failed, finished) and about silent runs.

-- Whether the alert rules have seen the transition. Those of earlier servers count as seen.
ALTER TABLE transitions ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
UPDATE transitions SET told = 1;
CREATE INDEX transitions_untold ON transitions(transition)
  WHERE told = 0 AND new_state IN ('restarting', 'failed', 'lost', 'succeeded');

-- Adds the rules to a database that has rules. A new database gets its rules from server/alerts.
INSERT OR IGNORE INTO alert_rules(place, name, kind, enabled, threshold, clear_s)
  SELECT (SELECT max(place) FROM alert_rules) + added.column1, column2, column3, column4, column5, column6
  FROM (VALUES (1, 'silent', 'silent', 1, 60, 5), (2, 'restarted', 'restarted', 1, 1, 300),
               (3, 'failed', 'failed', 1, 0, 0), (4, 'finished', 'finished', 0, 0, 86400)) AS added
  WHERE EXISTS (SELECT 1 FROM alert_rules);
