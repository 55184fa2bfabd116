-- What a run's report says about its training set and its devices.

ALTER TABLE runs ADD COLUMN data TEXT NOT NULL DEFAULT '';                      -- a JSON object; empty: unknown
ALTER TABLE ranks ADD COLUMN peak_flops REAL NOT NULL DEFAULT 0;                -- of the device; 0: not measured
ALTER TABLE ranks ADD COLUMN peak_bytes_per_second REAL NOT NULL DEFAULT 0;
