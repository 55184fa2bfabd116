-- Runs that wait instead of computing.

ALTER TABLE runs ADD COLUMN emulated INTEGER NOT NULL DEFAULT 0;
