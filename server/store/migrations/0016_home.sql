-- What the last server was, and where folders of runs and checkpoints have moved.

-- One row.
CREATE TABLE home (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  folder TEXT NOT NULL,               -- the data folder at the last start
  world TEXT NOT NULL DEFAULT '');    -- the machine's boot and the container in which the last server ran

-- Paths below old_folder, also those of records that come later, lie below new_folder now.
CREATE TABLE moves (old_folder TEXT PRIMARY KEY, new_folder TEXT NOT NULL) WITHOUT ROWID;
