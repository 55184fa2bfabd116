-- Bounds on the audit log; tokens limited to runs with a name prefix; which token reported a run.

ALTER TABLE audit ADD COLUMN last_ms INTEGER NOT NULL DEFAULT 0;     -- time of the entry's last request
ALTER TABLE audit ADD COLUMN count INTEGER NOT NULL DEFAULT 1;       -- number of requests combined in the entry
ALTER TABLE audit ADD COLUMN kept_by_age INTEGER NOT NULL DEFAULT 1; -- 0: expires by number of entries
UPDATE audit SET last_ms = time_ms, kept_by_age = status NOT IN (401, 403, 421) AND route NOT IN (
  '/api/v1/runs/{run}/records', '/api/v1/runs/{run}/heartbeat', '/api/v1/runs/{run}/evals', '/api/v1/metrics/query',
  '/api/v1/runs:validate', '/api/v1/checkpoints/{checkpoint}/translate');
CREATE INDEX audit_by_count ON audit(entry) WHERE NOT kept_by_age;
CREATE INDEX audit_by_age ON audit(last_ms) WHERE kept_by_age;

ALTER TABLE tokens ADD COLUMN run_prefix TEXT NOT NULL DEFAULT ''; -- required prefix of the names of its runs
ALTER TABLE runs ADD COLUMN begun_by TEXT NOT NULL DEFAULT '';     -- id of the token that first reported the run
CREATE INDEX runs_begun ON runs(begun_by, created_ms);
-- Existing runs get the token that reported last, so that running training can continue to report.
UPDATE runs SET begun_by = reports.token FROM (
    SELECT object, token, max(entry) FROM audit
    WHERE route = '/api/v1/runs/{run}/records' AND status = 200 GROUP BY object) AS reports
  WHERE profile = 'external' AND reports.object = '/api/v1/runs/' || runs.id || '/records';
