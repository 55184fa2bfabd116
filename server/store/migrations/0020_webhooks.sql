-- Addresses that are told of alerts, at once or once a day, and what was or is to be sent there.

CREATE TABLE webhooks (
  webhook INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
  kind TEXT NOT NULL,                 -- the form of a message: json, slack, mattermost or ntfy
  url TEXT NOT NULL, secret TEXT NOT NULL, -- the secret is '' without a signature
  page TEXT NOT NULL,                 -- address of the dashboard for links; '': the server's own
  alert_kinds TEXT NOT NULL, runs TEXT NOT NULL, labels TEXT NOT NULL, -- JSON arrays of texts; []: any
  cleared INTEGER NOT NULL,           -- tell of alerts that are over, too
  enabled INTEGER NOT NULL,
  digest_at TEXT NOT NULL,            -- local time of a daily digest instead of alerts at once, as 08:00; '': none
  digest_ms INTEGER NOT NULL,         -- time of the last digest, or since when there is one
  created_by TEXT NOT NULL, created_ms INTEGER NOT NULL,
  dropped INTEGER NOT NULL DEFAULT 0); -- deliveries that gave place to newer ones

CREATE TABLE deliveries (
  delivery INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
  webhook INTEGER NOT NULL REFERENCES webhooks ON DELETE CASCADE,
  event TEXT NOT NULL,                -- alert_raised, alert_cleared, digest or test
  content TEXT NOT NULL,              -- a JSON object
  state TEXT NOT NULL,                -- waiting, delivered or failed
  created_ms INTEGER NOT NULL, due_ms INTEGER NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0, tried_ms INTEGER, -- the last try, with its outcome:
  status INTEGER NOT NULL DEFAULT 0,  -- of HTTP; 0: no answer
  detail TEXT NOT NULL DEFAULT '');   -- why it was not taken
CREATE INDEX deliveries_waiting ON deliveries(webhook, delivery) WHERE state = 'waiting';
CREATE INDEX deliveries_by_webhook ON deliveries(webhook, delivery);
