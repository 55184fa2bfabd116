-- The clock of rank 0's records tells how long a run took; attempts that users start are news to the alert rules; a purged
-- run is not taken from its folder again.

ALTER TABLE ranks ADD COLUMN record_ms INTEGER NOT NULL DEFAULT 0; -- newest own time of a record; 0: unknown

-- Places an alert on a chart of the run, whatever the clocks of server and records say.
ALTER TABLE alerts ADD COLUMN reached INTEGER NOT NULL DEFAULT 0; -- rank 0's newest update when it was raised; 0: unknown

-- A newer attempt that a user started is news to the alert rules, too: the one before it may have ended by a fault.
UPDATE transitions SET told = 1 WHERE event = 'newer_attempt';
DROP INDEX transitions_untold;
CREATE INDEX transitions_untold ON transitions(transition)
  WHERE told = 0 AND (event = 'newer_attempt' OR new_state IN ('restarting', 'failed', 'lost', 'succeeded'));

CREATE TABLE purged_runs (id TEXT PRIMARY KEY) WITHOUT ROWID;
