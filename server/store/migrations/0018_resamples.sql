-- What the best validations of runs are compared by: scores of bootstrap resamples, see base/records/resamples.h.

-- One row for each metric of a run's best validation.
CREATE TABLE resamples (
  resample INTEGER PRIMARY KEY, run INTEGER NOT NULL, metric TEXT NOT NULL,
  step INTEGER NOT NULL,                  -- of the validation
  signature TEXT NOT NULL, reference_digest TEXT NOT NULL, statistics_digest TEXT NOT NULL,
  score REAL NOT NULL,
  scores BLOB NOT NULL,                   -- doubles of this machine, as in steps.vals
  UNIQUE (run, metric));
