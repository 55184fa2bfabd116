-- The newest request for a timeline of each run.

CREATE TABLE trace_requests (
  run INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL,  -- that was asked
  number INTEGER NOT NULL,   -- from 1 in each attempt
  updates INTEGER NOT NULL, ops INTEGER NOT NULL);
