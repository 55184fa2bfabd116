-- The program version and world size of a checkpoint; removals in two steps.

ALTER TABLE checkpoints ADD COLUMN version TEXT NOT NULL DEFAULT '';
ALTER TABLE checkpoints ADD COLUMN world_size INTEGER NOT NULL DEFAULT 0;
-- 1 while the files are being deleted. A server that was killed meanwhile finishes the removal at its next start.
ALTER TABLE checkpoints ADD COLUMN removing INTEGER NOT NULL DEFAULT 0;
CREATE INDEX checkpoints_removing ON checkpoints(checkpoint) WHERE removing;
