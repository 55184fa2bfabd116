-- Tokens, the audit log and idempotency keys.

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
