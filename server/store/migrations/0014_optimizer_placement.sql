-- Who keeps a run's optimizer state.

ALTER TABLE runs ADD COLUMN optimizer TEXT NOT NULL DEFAULT ''; -- replicated or sharded; '': unknown
