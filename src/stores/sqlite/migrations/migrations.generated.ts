// Made by `npm run generate` from the .sql files in this folder; change those instead.
export const migrations = [
  {
    version: 1,
    name: 'create_outbox',
    sql: `-- Which migrations this database has.
CREATE TABLE "{prefix}migrations" (
  version    INTEGER NOT NULL PRIMARY KEY,
  name       TEXT    NOT NULL,
  applied_at INTEGER NOT NULL
) STRICT;

-- Facts. The payload comes last, so that reading the other columns never touches its overflow pages.
CREATE TABLE "{prefix}events" (
  seq            INTEGER PRIMARY KEY AUTOINCREMENT,
  id             BLOB    NOT NULL UNIQUE CHECK (length(id) = 16),
  type           TEXT    NOT NULL,
  version        INTEGER NOT NULL,
  key            TEXT,
  aggregate_type TEXT,
  aggregate_id   TEXT,
  tenant_id      TEXT,
  occurred_at    INTEGER NOT NULL,
  created_at     INTEGER NOT NULL,
  routes_version INTEGER NOT NULL,
  replaces_id    BLOB             CHECK (replaces_id IS NULL OR length(replaces_id) = 16),
  size           INTEGER NOT NULL,
  content_type   TEXT    NOT NULL,
  headers        TEXT,
  payload        ANY     NOT NULL CHECK (typeof(payload) IN ('text', 'blob'))
) STRICT;

-- For the reconciler: events by the routes they were published with. The rowid, seq, is part of every index.
CREATE INDEX "{prefix}events_routes" ON "{prefix}events" (routes_version);

-- Work that is not finished: 0 pending, 2 retry, 3 dead, 5 scheduled, 6 held. Finished rows leave this table.
CREATE TABLE "{prefix}deliveries" (
  id           BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  event_id     BLOB    NOT NULL CHECK (length(event_id) = 16),
  seq          INTEGER NOT NULL,
  destination  TEXT    NOT NULL,
  run          INTEGER NOT NULL CHECK (run >= 1),
  lane         INTEGER NOT NULL CHECK (lane BETWEEN 0 AND 63),
  key          TEXT,
  status       INTEGER NOT NULL CHECK (status IN (0, 2, 3, 5, 6)),
  attempts     INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  suspicions   INTEGER NOT NULL DEFAULT 0 CHECK (suspicions >= 0),
  available_at INTEGER NOT NULL,
  token        TEXT,
  holds_key    INTEGER NOT NULL DEFAULT 0 CHECK (holds_key IN (0, 1)),
  size         INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  settled_by   TEXT,
  settled_at   INTEGER,
  parked       INTEGER NOT NULL DEFAULT 0 CHECK (parked IN (0, 1)),
  CHECK (holds_key = 0 OR key IS NOT NULL),
  CHECK (status <> 6 OR holds_key = 1)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX "{prefix}deliveries_identity" ON "{prefix}deliveries" (event_id, destination, run);
CREATE INDEX "{prefix}deliveries_fresh" ON "{prefix}deliveries" (destination, seq, lane, available_at) WHERE status = 0;
CREATE INDEX "{prefix}deliveries_hot" ON "{prefix}deliveries" (destination, available_at, lane) WHERE status = 0 AND token IS NOT NULL;
CREATE INDEX "{prefix}deliveries_due" ON "{prefix}deliveries" (destination, available_at, lane) WHERE status = 2;
CREATE INDEX "{prefix}deliveries_scheduled" ON "{prefix}deliveries" (destination, available_at, lane) WHERE status = 5;
-- Who is before whom in a key, and who keeps a key waiting. Two indexes, because a key may have a million
-- pending rows, and looking for its holder must not walk through them.
CREATE INDEX "{prefix}deliveries_keys" ON "{prefix}deliveries" (destination, key, seq) WHERE key IS NOT NULL AND status = 0;
CREATE INDEX "{prefix}deliveries_holders" ON "{prefix}deliveries" (destination, key, status, seq) WHERE holds_key = 1;
CREATE INDEX "{prefix}deliveries_aside" ON "{prefix}deliveries" (status, id) WHERE status IN (2, 3, 5, 6);
CREATE INDEX "{prefix}deliveries_blocking" ON "{prefix}deliveries" (destination, seq) WHERE status = 3 AND holds_key = 1 AND parked = 0;
CREATE INDEX "{prefix}deliveries_dead" ON "{prefix}deliveries" (settled_at) WHERE status = 3;

-- History, append-only: 1 done, 4 discarded.
CREATE TABLE "{prefix}finished" (
  id          BLOB    NOT NULL PRIMARY KEY CHECK (length(id) = 16),
  event_id    BLOB    NOT NULL,
  seq         INTEGER NOT NULL,
  destination TEXT    NOT NULL,
  run         INTEGER NOT NULL,
  lane        INTEGER NOT NULL,
  key         TEXT,
  status      INTEGER NOT NULL CHECK (status IN (1, 4)),
  attempts    INTEGER NOT NULL,
  suspicions  INTEGER NOT NULL,
  size        INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  finished_at INTEGER NOT NULL,
  settled_by  TEXT
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX "{prefix}finished_identity" ON "{prefix}finished" (event_id, destination, run);
CREATE INDEX "{prefix}finished_at" ON "{prefix}finished" (finished_at);
CREATE INDEX "{prefix}finished_discarded" ON "{prefix}finished" (id) WHERE status = 4;

CREATE TABLE "{prefix}workers" (
  id           TEXT    NOT NULL PRIMARY KEY,
  name         TEXT    NOT NULL,
  started_at   INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  fenced       INTEGER NOT NULL DEFAULT 0 CHECK (fenced IN (0, 1)),
  destinations TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Lane -1 of a name is a duty: something that one worker at a time does.
CREATE TABLE "{prefix}lanes" (
  destination TEXT    NOT NULL,
  lane        INTEGER NOT NULL CHECK (lane BETWEEN -1 AND 63),
  worker_id   TEXT,
  epoch       INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (destination, lane)
) STRICT, WITHOUT ROWID;

CREATE TABLE "{prefix}attempts" (
  delivery_id BLOB    NOT NULL,
  attempt     INTEGER NOT NULL,
  at          INTEGER NOT NULL,
  worker      TEXT    NOT NULL,
  duration_ms INTEGER NOT NULL,
  code        TEXT,
  message     TEXT    NOT NULL,
  stack       TEXT,
  UNIQUE (delivery_id, attempt)
) STRICT;

CREATE TABLE "{prefix}dedup" (
  type            TEXT    NOT NULL,
  idempotency_key TEXT    NOT NULL,
  event_id        BLOB    NOT NULL,
  created_at      INTEGER NOT NULL,
  PRIMARY KEY (type, idempotency_key)
) STRICT, WITHOUT ROWID;

CREATE INDEX "{prefix}dedup_created" ON "{prefix}dedup" (created_at);

CREATE TABLE "{prefix}destinations" (
  name            TEXT    NOT NULL PRIMARY KEY,
  patterns        TEXT    NOT NULL,
  patterns_from   TEXT    NOT NULL,
  version         INTEGER NOT NULL,
  started_at      INTEGER NOT NULL,
  reconciled_to   INTEGER NOT NULL,
  paused          INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  rate_per_second REAL
) STRICT, WITHOUT ROWID;

CREATE TABLE "{prefix}audit" (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  at     INTEGER NOT NULL,
  actor  TEXT    NOT NULL,
  action TEXT    NOT NULL,
  reason TEXT,
  target TEXT    NOT NULL,
  count  INTEGER NOT NULL
) STRICT;

-- Per minute; the row of minute 0 has the running totals of "{prefix}finished".
CREATE TABLE "{prefix}stats" (
  minute      INTEGER NOT NULL,
  destination TEXT    NOT NULL,
  done        INTEGER NOT NULL,
  discarded   INTEGER NOT NULL,
  failed      INTEGER NOT NULL,
  pending     INTEGER NOT NULL,
  dead        INTEGER NOT NULL,
  PRIMARY KEY (minute, destination)
) STRICT, WITHOUT ROWID;

-- Unfinished and finished work together, the way an outbox in one table looks.
CREATE VIEW "{prefix}all" AS
WITH d AS (
  SELECT id, event_id, seq, destination, run, lane, key, status, attempts, suspicions, created_at,
         CASE status WHEN 3 THEN NULL ELSE available_at END AS available_at, NULL AS finished_at
  FROM "{prefix}deliveries"
  UNION ALL
  SELECT id, event_id, seq, destination, run, lane, key, status, attempts, suspicions, created_at,
         NULL, finished_at
  FROM "{prefix}finished"
)
SELECT
  lower(substr(hex(d.event_id), 1, 8) || '-' || substr(hex(d.event_id), 9, 4) || '-' || substr(hex(d.event_id), 13, 4)
    || '-' || substr(hex(d.event_id), 17, 4) || '-' || substr(hex(d.event_id), 21)) AS event_id,
  lower(substr(hex(d.id), 1, 8) || '-' || substr(hex(d.id), 9, 4) || '-' || substr(hex(d.id), 13, 4)
    || '-' || substr(hex(d.id), 17, 4) || '-' || substr(hex(d.id), 21)) AS delivery_id,
  d.seq,
  e.type AS type,
  e.aggregate_type AS aggregate_type,
  e.aggregate_id AS aggregate_id,
  e.tenant_id AS tenant_id,
  d.destination,
  d.run,
  d.lane,
  d.key,
  CASE d.status
    WHEN 0 THEN 'pending' WHEN 1 THEN 'done' WHEN 2 THEN 'retry' WHEN 3 THEN 'dead'
    WHEN 4 THEN 'discarded' WHEN 5 THEN 'scheduled' ELSE 'held'
  END AS status,
  d.attempts,
  d.suspicions,
  d.available_at,
  d.created_at,
  CASE d.status WHEN 1 THEN d.finished_at END AS done_at,
  d.finished_at,
  (SELECT a.message FROM "{prefix}attempts" a WHERE a.delivery_id = d.id ORDER BY a.attempt DESC LIMIT 1) AS last_error,
  e.headers AS headers,
  e.payload AS payload
FROM d LEFT JOIN "{prefix}events" e ON e.id = d.event_id;
`,
  },
  {
    version: 2,
    name: 'add_settings',
    sql: `-- What operators set for a destination while it runs, as JSON. A process that does not know the column works without it.
ALTER TABLE "{prefix}destinations" ADD COLUMN settings TEXT;
`,
  },
  {
    version: 3,
    name: 'add_breakers',
    sql: `-- Breakers of a worker that are open, as JSON: how long before the end of its lease each was opened. A process that does not
-- know the column works without it.
ALTER TABLE "{prefix}workers" ADD COLUMN breakers TEXT;
`,
  },
  {
    version: 4,
    name: 'add_lease_ms',
    sql: `-- For how long a worker leases, so that others know how long it may count on what it last renewed. A process that does not know
-- the column works without it.
ALTER TABLE "{prefix}workers" ADD COLUMN lease_ms INTEGER;
`,
  },
] as const
