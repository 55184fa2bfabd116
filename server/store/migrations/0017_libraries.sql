-- Versions of the libraries that a rank computes with.

ALTER TABLE ranks ADD COLUMN libraries TEXT NOT NULL DEFAULT ''; -- a JSON object of texts; '': unknown
