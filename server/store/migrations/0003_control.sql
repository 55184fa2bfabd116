-- Runs that the server starts: states, attempts, labels and notes.

ALTER TABLE runs ADD COLUMN profile TEXT NOT NULL DEFAULT 'external';
ALTER TABLE runs ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';         -- a JSON object of strings
ALTER TABLE runs ADD COLUMN notes TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN deleted_ms INTEGER;                        -- the run is purged 7 days later
ALTER TABLE runs ADD COLUMN delete_checkpoints INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN stop_wish TEXT NOT NULL DEFAULT '';        -- checkpoint or now, while stopping
ALTER TABLE runs ADD COLUMN stop_grace_s INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN checkpoint_wish INTEGER NOT NULL DEFAULT 0; -- number of checkpoints requested in this attempt

-- What the server needs to start and restart a run.
CREATE TABLE launches (
  run INTEGER PRIMARY KEY, folder TEXT NOT NULL, launch_config TEXT NOT NULL, launch_ranks INTEGER NOT NULL,
  max_restarts INTEGER NOT NULL, restarts INTEGER NOT NULL DEFAULT 0,
  resume_folder TEXT NOT NULL DEFAULT '', resume_step INTEGER NOT NULL DEFAULT 0,  -- of the checkpoint asked for
  place INTEGER NOT NULL);            -- in the queue: smaller ones first

CREATE TABLE attempts (
  run INTEGER NOT NULL, attempt INTEGER NOT NULL,
  launcher TEXT NOT NULL,             -- mpirun, slurm, or external: started by hand
  pid INTEGER NOT NULL DEFAULT 0, start_ticks INTEGER NOT NULL DEFAULT 0, job TEXT NOT NULL DEFAULT '',
  world_size INTEGER NOT NULL DEFAULT 0, resumed_from TEXT NOT NULL DEFAULT '',
  started_ms INTEGER NOT NULL, ended_ms INTEGER, exit_code INTEGER, cause TEXT NOT NULL DEFAULT '',
  outcome TEXT NOT NULL DEFAULT '', outcome_detail TEXT NOT NULL DEFAULT '',  -- what its own records say
  fenced INTEGER NOT NULL DEFAULT 0,  -- its ranks must end wherever they still are
  PRIMARY KEY (run, attempt)) WITHOUT ROWID;

CREATE TABLE transitions (
  transition INTEGER PRIMARY KEY, run INTEGER NOT NULL, attempt INTEGER NOT NULL,
  old_state TEXT NOT NULL, new_state TEXT NOT NULL, event TEXT NOT NULL,
  cause TEXT NOT NULL, actor TEXT NOT NULL, time_ms INTEGER NOT NULL);
CREATE INDEX transitions_by_run ON transitions(run, transition);
