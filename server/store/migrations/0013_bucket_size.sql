-- The size of the buckets in which a run sums its gradients.

ALTER TABLE runs ADD COLUMN bucket_mb REAL NOT NULL DEFAULT 0; -- 10^6 bytes; 0: unknown, or without buckets
