#include "server/store/schema.h"

#include <array>

#include "server/store/log_writer.h"

namespace babelring::store {
namespace {

// Migration i brings version i to i + 1. Never edit one that was released: append.
constexpr std::array<const char*, schema_version> migrations = {R"sql(
CREATE TABLE runs (
  run INTEGER PRIMARY KEY,            -- creation order; pages go by it
  id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL DEFAULT '',
  state TEXT NOT NULL,
  detail TEXT NOT NULL DEFAULT '',
  attempt INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,        -- this server's clock
  updated_ms INTEGER NOT NULL,        -- when the last record came, this server's clock
  started_ms INTEGER NOT NULL,        -- the first record's own time
  finished_ms INTEGER,
  version TEXT NOT NULL DEFAULT '',
  config TEXT NOT NULL DEFAULT '',
  world_size INTEGER NOT NULL DEFAULT 0,
  parameters INTEGER NOT NULL DEFAULT 0,
  max_updates INTEGER NOT NULL DEFAULT 0);
CREATE INDEX runs_by_state ON runs(state, run);

-- What arrived: disjoint ranges of sequence numbers. One row a rank unless something is missing.
CREATE TABLE arrivals (
  run INTEGER NOT NULL, attempt INTEGER NOT NULL, rank INTEGER NOT NULL,
  first INTEGER NOT NULL, last INTEGER NOT NULL,
  PRIMARY KEY (run, attempt, rank, first)) WITHOUT ROWID;

CREATE TABLE ranks (
  run INTEGER NOT NULL, attempt INTEGER NOT NULL, rank INTEGER NOT NULL,
  host TEXT NOT NULL DEFAULT '', pid INTEGER NOT NULL DEFAULT 0, device TEXT NOT NULL DEFAULT '',
  first_update INTEGER NOT NULL DEFAULT 0, last_update INTEGER NOT NULL DEFAULT 0,
  updated_ms INTEGER NOT NULL,
  PRIMARY KEY (run, attempt, rank)) WITHOUT ROWID;

-- Which key stands at which place of a step's values: '\n' between keys.
CREATE TABLE layouts (layout INTEGER PRIMARY KEY, keys TEXT NOT NULL UNIQUE);

-- Which layouts occur in a run.
CREATE TABLE run_layouts (run INTEGER NOT NULL, layout INTEGER NOT NULL, PRIMARY KEY (run, layout)) WITHOUT ROWID;

CREATE TABLE steps (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, attempt INTEGER NOT NULL, step INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, layout INTEGER NOT NULL, digest TEXT,
  vals BLOB NOT NULL,                 -- IEEE doubles, little-endian
  PRIMARY KEY (run, rank, attempt, step)) WITHOUT ROWID;

-- Summaries of 64 consecutive steps, made when the next 64 begin: a view of `steps` that may be rebuilt.
CREATE TABLE buckets (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, attempt INTEGER NOT NULL, bucket INTEGER NOT NULL,
  first_step INTEGER NOT NULL, last_step INTEGER NOT NULL, count INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, layout INTEGER NOT NULL, vals BLOB NOT NULL,
  PRIMARY KEY (run, rank, attempt, bucket)) WITHOUT ROWID;

CREATE TABLE evals (
  eval INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, run INTEGER NOT NULL,
  attempt INTEGER NOT NULL, step INTEGER NOT NULL, time_ms INTEGER NOT NULL, body TEXT NOT NULL,
  samples TEXT NOT NULL, sample_count INTEGER NOT NULL,
  sacrebleu REAL, best INTEGER NOT NULL);
CREATE INDEX evals_by_run ON evals(run, eval);

CREATE TABLE checkpoints (
  checkpoint INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, run INTEGER NOT NULL,
  name TEXT NOT NULL, step INTEGER NOT NULL, created_ms INTEGER NOT NULL,
  folder TEXT NOT NULL, files TEXT NOT NULL,
  sacrebleu REAL, loss REAL, best INTEGER NOT NULL, removed INTEGER NOT NULL, write_seconds REAL,
  UNIQUE (run, name));
CREATE INDEX checkpoints_by_run ON checkpoints(run, step, checkpoint);

CREATE TABLE logs (
  log INTEGER PRIMARY KEY, run INTEGER NOT NULL, attempt INTEGER NOT NULL, rank INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, level TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX logs_by_run ON logs(run, log);

-- Every change of a run's state, with its cause.
CREATE TABLE lifecycle (
  event INTEGER PRIMARY KEY, run INTEGER NOT NULL, attempt INTEGER NOT NULL, rank INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, name TEXT NOT NULL, detail TEXT NOT NULL);
CREATE INDEX lifecycle_by_run ON lifecycle(run, event);
)sql",
                                                                // 2: who may do what: tokens, audit, idempotency keys
                                                                R"sql(
CREATE TABLE tokens (
  token INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,          -- SHA-256 of the secret, which is kept nowhere
  scope TEXT NOT NULL, run TEXT NOT NULL,
  created_by TEXT NOT NULL, created_ms INTEGER NOT NULL, expires_ms INTEGER, used_ms INTEGER);

CREATE TABLE audit (
  entry INTEGER PRIMARY KEY AUTOINCREMENT, time_ms INTEGER NOT NULL,
  actor TEXT NOT NULL, token TEXT NOT NULL, method TEXT NOT NULL, route TEXT NOT NULL, object TEXT NOT NULL,
  status INTEGER NOT NULL, request TEXT NOT NULL, address TEXT NOT NULL);

CREATE TABLE idempotency (
  owner TEXT NOT NULL, key TEXT NOT NULL, created_ms INTEGER NOT NULL, fingerprint TEXT NOT NULL,
  status INTEGER NOT NULL DEFAULT 0, headers TEXT NOT NULL DEFAULT '', body TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (owner, key)) WITHOUT ROWID;
CREATE INDEX idempotency_by_time ON idempotency(created_ms);
)sql",
                                                                // 3: runs that the server starts: states, attempts
                                                                R"sql(
ALTER TABLE runs ADD COLUMN profile TEXT NOT NULL DEFAULT 'external';
ALTER TABLE runs ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';         -- a JSON object of texts
ALTER TABLE runs ADD COLUMN notes TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN deleted_ms INTEGER;                        -- removed for good 7 days later
ALTER TABLE runs ADD COLUMN delete_checkpoints INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN stop_wish TEXT NOT NULL DEFAULT '';        -- checkpoint or now, while stopping
ALTER TABLE runs ADD COLUMN stop_grace_s INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN checkpoint_wish INTEGER NOT NULL DEFAULT 0; -- counts the wishes of this attempt

-- What the server needs to start a run, and to start it again.
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
)sql",
                                                                // 4: pins, retention, compressed logs
                                                                R"sql(
ALTER TABLE checkpoints ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;

-- Which checkpoints of a run the server shall keep, and how much of its log.
CREATE TABLE retention (run INTEGER PRIMARY KEY, policy TEXT NOT NULL, max_log_bytes INTEGER);

-- A run's newest log lines; older ones are in blocks. Numbers go on from there without gaps.
CREATE TABLE log_lines (
  run INTEGER NOT NULL, line INTEGER NOT NULL, attempt INTEGER NOT NULL, rank INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, level TEXT NOT NULL, text TEXT NOT NULL,
  PRIMARY KEY (run, line)) WITHOUT ROWID;
CREATE TABLE log_blocks (
  block INTEGER PRIMARY KEY, run INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  raw_bytes INTEGER NOT NULL, bytes INTEGER NOT NULL, lowest_rank INTEGER NOT NULL, highest_rank INTEGER NOT NULL,
  levels INTEGER NOT NULL,            -- bits: debug, info, warn, error, others
  data BLOB NOT NULL,                 -- server/store/log_blocks.h, compressed by zstd
  UNIQUE (run, first));
INSERT INTO log_lines SELECT run, row_number() OVER (PARTITION BY run ORDER BY log), attempt, rank, time_ms, level, text
  FROM logs;
DROP TABLE logs;

-- Summaries of 512, 4096 and 32768 consecutive steps (level 1, 2, 3), each made of eight of the level below; those of
-- 64 are in `buckets`. Views of `steps` too: where one is missing, the level below is read.
CREATE TABLE pyramid (
  run INTEGER NOT NULL, rank INTEGER NOT NULL, attempt INTEGER NOT NULL, level INTEGER NOT NULL,
  bucket INTEGER NOT NULL, first_step INTEGER NOT NULL, last_step INTEGER NOT NULL, count INTEGER NOT NULL,
  time_ms INTEGER NOT NULL, layout INTEGER NOT NULL, vals BLOB NOT NULL,
  PRIMARY KEY (run, rank, attempt, level, bucket)) WITHOUT ROWID;
)sql",
                                                                // 5: alerts
                                                                R"sql(
-- Place 0 is no rule: it says that the default rules were put once.
CREATE TABLE alert_rules (
  place INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, run TEXT NOT NULL DEFAULT '',
  enabled INTEGER NOT NULL DEFAULT 1, threshold REAL NOT NULL DEFAULT 0,
  hold_s REAL NOT NULL DEFAULT 0, clear_s REAL NOT NULL DEFAULT 0);

CREATE TABLE alerts (
  alert INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
  rule TEXT NOT NULL, kind TEXT NOT NULL,
  run TEXT NOT NULL,                  -- a run's id; empty: the server's own
  subject TEXT NOT NULL,              -- the rank or folder meant, or empty
  message TEXT NOT NULL, value REAL, threshold REAL,
  raised_ms INTEGER NOT NULL, cleared_ms INTEGER,
  acknowledged_ms INTEGER, acknowledged_by TEXT NOT NULL DEFAULT '');
CREATE INDEX alerts_by_run ON alerts(run, alert);
CREATE UNIQUE INDEX alerts_open ON alerts(rule, run, subject) WHERE cleared_ms IS NULL;  -- one fault, one alert
)sql",
                                                                // 6: where checkpoints come from, and where they go
                                                                R"sql(
ALTER TABLE checkpoints ADD COLUMN version TEXT NOT NULL DEFAULT '';
ALTER TABLE checkpoints ADD COLUMN world_size INTEGER NOT NULL DEFAULT 0;
-- A removal that has begun: its files are going. A server that was killed meanwhile finishes it at its next start.
ALTER TABLE checkpoints ADD COLUMN removing INTEGER NOT NULL DEFAULT 0;
CREATE INDEX checkpoints_removing ON checkpoints(checkpoint) WHERE removing;
)sql",
                                                                // 7: what ends a run; ranks that differ
                                                                R"sql(
ALTER TABLE runs ADD COLUMN end_text TEXT NOT NULL DEFAULT '';         -- what ends it, in words; empty: not known
ALTER TABLE runs ADD COLUMN may_end_sooner INTEGER NOT NULL DEFAULT 0; -- by early stopping

-- For databases that have their rules already. The rules of a new one come from server/alerts.
INSERT OR IGNORE INTO alert_rules(place, name, kind, threshold)
  SELECT (SELECT max(place) FROM alert_rules) + 1, 'ranks-differ', 'ranks_differ', 1
  WHERE EXISTS (SELECT 1 FROM alert_rules);
-- A model whose ranks differed stays doubtful when the run is over.
CREATE INDEX alerts_ranks_differ ON alerts(run) WHERE kind = 'ranks_differ';
)sql",
                                                                // 8: an audit that nobody can flood; who may report
                                                                R"sql(
ALTER TABLE audit ADD COLUMN last_ms INTEGER NOT NULL DEFAULT 0;     -- of the last request that the entry stands for
ALTER TABLE audit ADD COLUMN count INTEGER NOT NULL DEFAULT 1;       -- of those requests
ALTER TABLE audit ADD COLUMN kept_by_age INTEGER NOT NULL DEFAULT 1; -- else by count
UPDATE audit SET last_ms = time_ms, kept_by_age = status NOT IN (401, 403, 421) AND route NOT IN (
  '/api/v1/runs/{run}/records', '/api/v1/runs/{run}/heartbeat', '/api/v1/runs/{run}/evals', '/api/v1/metrics/query',
  '/api/v1/runs:validate', '/api/v1/checkpoints/{checkpoint}/translate');
CREATE INDEX audit_by_count ON audit(entry) WHERE NOT kept_by_age;
CREATE INDEX audit_by_age ON audit(last_ms) WHERE kept_by_age;

ALTER TABLE tokens ADD COLUMN run_prefix TEXT NOT NULL DEFAULT ''; -- what the names of its runs begin with
ALTER TABLE runs ADD COLUMN begun_by TEXT NOT NULL DEFAULT '';     -- id of the token that reported it first
CREATE INDEX runs_begun ON runs(begun_by, created_ms);
-- Of runs that there are already, the token that reported last: what trains now goes on.
UPDATE runs SET begun_by = reports.token FROM (
    SELECT object, token, max(entry) FROM audit
    WHERE route = '/api/v1/runs/{run}/records' AND status = 200 GROUP BY object) AS reports
  WHERE profile = 'external' AND reports.object = '/api/v1/runs/' || runs.id || '/records';
)sql"};

}  // namespace

void migrate(Database& writer) {
  const int found = std::stoi(writer.scalar("PRAGMA user_version"));
  if (found > schema_version) {
    fail("database has schema {}, this program supports up to {}: use the newer program that wrote it", found,
         schema_version);
  }
  if (found == schema_version) return;
  Transaction transaction(writer);
  for (int version = found; version < schema_version; ++version) {
    writer.execute(migrations[static_cast<std::size_t>(version)]);
  }
  LogWriter(writer).pack_all();
  writer.execute(fmt::format("PRAGMA user_version = {}", schema_version));
  transaction.commit();
}

}  // namespace babelring::store
