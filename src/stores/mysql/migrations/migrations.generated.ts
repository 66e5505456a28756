// Made by `npm run generate` from the .sql files in this folder; change those instead.
export const migrations = [
  {
    version: 1,
    name: 'create_outbox',
    sql: `-- DDL commits by itself here, so every statement can be run again after it broke in the middle.
-- {table} stands for engine, character set and a collation that tells "a" from "A" and from "a ", by the name
-- that each of the two servers has for it. Times are UTC.

-- Which migrations this database has.
CREATE TABLE IF NOT EXISTS \`{prefix}migrations\` (
  version    INT          NOT NULL PRIMARY KEY,
  name       VARCHAR(100) NOT NULL,
  applied_at DATETIME(6)  NOT NULL
) {table};

-- Facts, append-only. The payload comes last. JSON stays the text that it was: the server's own type would
-- rewrite it. MariaDB's JSON_VALID gives up below 32 levels, so what is that deep is taken on trust.
CREATE TABLE IF NOT EXISTS \`{prefix}events\` (
  id             BINARY(16)   NOT NULL,
  seq            BIGINT       NOT NULL AUTO_INCREMENT,
  type           VARCHAR(128) NOT NULL,
  version        INT          NOT NULL,
  \`key\`          VARCHAR(255),
  aggregate_type VARCHAR(64),
  aggregate_id   VARCHAR(128),
  tenant_id      VARCHAR(64),
  occurred_at    DATETIME(6)  NOT NULL,
  created_at     DATETIME(6)  NOT NULL,
  routes_version INT          NOT NULL,
  replaces_id    BINARY(16),
  size           INT          NOT NULL,
  content_type   VARCHAR(128) NOT NULL,
  headers        MEDIUMTEXT,
  payload        LONGTEXT,
  payload_bytes  LONGBLOB,
  PRIMARY KEY (id),
  KEY by_seq (seq),
  -- For the reconciler: events by the routes they were published with.
  KEY by_routes (routes_version, seq),
  CHECK ((payload IS NULL) <> (payload_bytes IS NULL)),
  CHECK (size = OCTET_LENGTH(COALESCE(payload, payload_bytes))),
  CHECK (payload IS NULL OR JSON_VALID(payload)
    OR LENGTH(payload) - LENGTH(REPLACE(REPLACE(payload, '[', ''), '{', '')) > 32)
) {table}{by_id};

-- Work that is not finished: 0 pending, 2 retry, 3 dead, 5 scheduled, 6 held. Finished rows leave this table.
-- state is the status, but dead rows that hold their key are 7, and 8 when it is parked: where other databases
-- have partial indexes, every index here begins with what tells the rows apart.
CREATE TABLE IF NOT EXISTS \`{prefix}deliveries\` (
  id           BINARY(16)   NOT NULL,
  event_id     BINARY(16)   NOT NULL,
  seq          BIGINT       NOT NULL,
  destination  VARCHAR(64)  NOT NULL,
  run          INT          NOT NULL,
  lane         TINYINT      NOT NULL,
  \`key\`        VARCHAR(255),
  status       TINYINT      NOT NULL,
  attempts     INT          NOT NULL DEFAULT 0,
  suspicions   INT          NOT NULL DEFAULT 0,
  -- Of a dead one: when it died.
  available_at DATETIME(6)  NOT NULL,
  token        VARCHAR(64),
  holds_key    TINYINT      NOT NULL DEFAULT 0,
  size         INT          NOT NULL,
  created_at   DATETIME(6)  NOT NULL,
  settled_by   VARCHAR(64),
  settled_at   DATETIME(6),
  parked       TINYINT      NOT NULL DEFAULT 0,
  state        TINYINT      AS (CASE WHEN status = 3 AND holds_key = 1 THEN 7 + parked ELSE status END) STORED,
  PRIMARY KEY (id),
  UNIQUE KEY identity (event_id, destination, run),
  KEY fresh (destination, state, seq, lane, available_at),
  KEY due (destination, state, available_at, lane),
  -- Who is before whom in a key, and who keeps it waiting: a key may have a million pending rows, and looking for
  -- its holder must not walk through them.
  KEY by_key (destination, \`key\`, holds_key, status, seq),
  KEY by_status (status, id),
  CHECK (status IN (0, 2, 3, 5, 6)),
  CHECK (lane BETWEEN 0 AND 63),
  CHECK (run >= 1),
  CHECK (attempts >= 0 AND suspicions >= 0),
  CHECK (holds_key IN (0, 1) AND parked IN (0, 1)),
  CHECK (holds_key = 0 OR \`key\` IS NOT NULL),
  CHECK (status <> 6 OR holds_key = 1)
) {table};

-- History, append-only: 1 done, 4 discarded.
CREATE TABLE IF NOT EXISTS \`{prefix}finished\` (
  id          BINARY(16)  NOT NULL,
  event_id    BINARY(16)  NOT NULL,
  seq         BIGINT      NOT NULL,
  destination VARCHAR(64) NOT NULL,
  run         INT         NOT NULL,
  lane        TINYINT     NOT NULL,
  \`key\`       VARCHAR(255),
  status      TINYINT     NOT NULL,
  attempts    INT         NOT NULL,
  suspicions  INT         NOT NULL,
  size        INT         NOT NULL,
  created_at  DATETIME(6) NOT NULL,
  finished_at DATETIME(6) NOT NULL,
  settled_by  VARCHAR(64),
  PRIMARY KEY (id),
  KEY identity (event_id, destination, run),
  KEY by_finish (finished_at),
  KEY by_status (status, id),
  CHECK (status IN (1, 4))
) {table}{by_id};

CREATE TABLE IF NOT EXISTS \`{prefix}workers\` (
  id           VARCHAR(64)  NOT NULL PRIMARY KEY,
  name         VARCHAR(255) NOT NULL,
  started_at   DATETIME(6)  NOT NULL,
  expires_at   DATETIME(6)  NOT NULL,
  fenced       TINYINT      NOT NULL DEFAULT 0,
  destinations MEDIUMTEXT   NOT NULL
) {table};

-- Lane -1 of a name is a duty: something that one worker at a time does. The lanes of '*' are taken by nobody;
-- publishers that lock their keys lock these rows.
CREATE TABLE IF NOT EXISTS \`{prefix}lanes\` (
  destination VARCHAR(64) NOT NULL,
  lane        TINYINT     NOT NULL,
  worker_id   VARCHAR(64),
  epoch       BIGINT      NOT NULL DEFAULT 0,
  PRIMARY KEY (destination, lane),
  KEY by_worker (worker_id),
  CHECK (lane BETWEEN -1 AND 63)
) {table};

INSERT INTO \`{prefix}lanes\` (destination, lane)
WITH RECURSIVE n (lane) AS (SELECT 0 UNION ALL SELECT lane + 1 FROM n WHERE lane < 63)
SELECT '*', n.lane FROM n ON DUPLICATE KEY UPDATE epoch = 0;

CREATE TABLE IF NOT EXISTS \`{prefix}attempts\` (
  delivery_id BINARY(16)    NOT NULL,
  attempt     INT           NOT NULL,
  at          DATETIME(6)   NOT NULL,
  worker      VARCHAR(255)  NOT NULL,
  duration_ms BIGINT        NOT NULL,
  code        VARCHAR(255),
  message     MEDIUMTEXT    NOT NULL,
  stack       MEDIUMTEXT,
  PRIMARY KEY (delivery_id, attempt)
) {table};

-- claim is new for every insert: whoever finds its own there was the first.
CREATE TABLE IF NOT EXISTS \`{prefix}dedup\` (
  type            VARCHAR(128) NOT NULL,
  idempotency_key VARCHAR(255) NOT NULL,
  event_id        BINARY(16)   NOT NULL,
  claim           BINARY(16)   NOT NULL,
  created_at      DATETIME(6)  NOT NULL,
  PRIMARY KEY (type, idempotency_key),
  KEY by_age (created_at)
) {table};

CREATE TABLE IF NOT EXISTS \`{prefix}destinations\` (
  name            VARCHAR(64) NOT NULL PRIMARY KEY,
  patterns        MEDIUMTEXT  NOT NULL,
  patterns_from   MEDIUMTEXT  NOT NULL,
  version         INT         NOT NULL,
  started_at      DATETIME(6) NOT NULL,
  reconciled_to   BIGINT      NOT NULL,
  paused          TINYINT     NOT NULL DEFAULT 0,
  rate_per_second DOUBLE
) {table};

CREATE TABLE IF NOT EXISTS \`{prefix}audit\` (
  id     BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
  at     DATETIME(6)  NOT NULL,
  actor  VARCHAR(255) NOT NULL,
  action VARCHAR(64)  NOT NULL,
  reason MEDIUMTEXT,
  target MEDIUMTEXT   NOT NULL,
  count  BIGINT       NOT NULL
) {table};

-- Per minute, counted from 1970. Rows of minute 0 and below have the running totals of finished work; there are
-- several, so that settles do not wait for each other, and their sum is what counts.
CREATE TABLE IF NOT EXISTS \`{prefix}stats\` (
  minute      INT         NOT NULL,
  destination VARCHAR(64) NOT NULL,
  done        BIGINT      NOT NULL,
  discarded   BIGINT      NOT NULL,
  failed      BIGINT      NOT NULL,
  pending     BIGINT      NOT NULL,
  dead        BIGINT      NOT NULL,
  PRIMARY KEY (minute, destination)
) {table};

-- Unfinished and finished work together, the way an outbox in one table looks. It reads with the rights of
-- whoever asks. What is made here has a collation of its own: it would otherwise have that of the connection which
-- makes the view, and could not be compared with texts of other connections.
CREATE OR REPLACE SQL SECURITY INVOKER VIEW \`{prefix}all\` AS
SELECT
  CONVERT(LOWER(CONCAT_WS('-', SUBSTR(HEX(d.event_id), 1, 8), SUBSTR(HEX(d.event_id), 9, 4), SUBSTR(HEX(d.event_id), 13, 4),
    SUBSTR(HEX(d.event_id), 17, 4), SUBSTR(HEX(d.event_id), 21))) USING utf8mb4) COLLATE utf8mb4_bin AS event_id,
  CONVERT(LOWER(CONCAT_WS('-', SUBSTR(HEX(d.id), 1, 8), SUBSTR(HEX(d.id), 9, 4), SUBSTR(HEX(d.id), 13, 4),
    SUBSTR(HEX(d.id), 17, 4), SUBSTR(HEX(d.id), 21))) USING utf8mb4) COLLATE utf8mb4_bin AS delivery_id,
  d.seq,
  e.type,
  e.aggregate_type,
  e.aggregate_id,
  e.tenant_id,
  d.destination,
  d.run,
  d.lane,
  d.\`key\`,
  CASE d.status
    WHEN 0 THEN _utf8mb4'pending' WHEN 1 THEN _utf8mb4'done' WHEN 2 THEN _utf8mb4'retry' WHEN 3 THEN _utf8mb4'dead'
    WHEN 4 THEN _utf8mb4'discarded' WHEN 5 THEN _utf8mb4'scheduled' ELSE _utf8mb4'held'
  END COLLATE utf8mb4_bin AS status,
  d.attempts,
  d.suspicions,
  d.available_at,
  d.created_at,
  CASE d.status WHEN 1 THEN d.finished_at END AS done_at,
  d.finished_at,
  (SELECT a.message FROM \`{prefix}attempts\` AS a WHERE a.delivery_id = d.id ORDER BY a.attempt DESC LIMIT 1) AS last_error,
  e.headers,
  e.payload,
  e.payload_bytes
FROM (
  SELECT id, event_id, seq, destination, run, lane, \`key\`, status, attempts, suspicions, created_at,
         CASE status WHEN 3 THEN NULL ELSE available_at END AS available_at, CAST(NULL AS DATETIME(6)) AS finished_at
  FROM \`{prefix}deliveries\`
  UNION ALL
  SELECT id, event_id, seq, destination, run, lane, \`key\`, status, attempts, suspicions, created_at,
         CAST(NULL AS DATETIME(6)), finished_at
  FROM \`{prefix}finished\`
) AS d LEFT JOIN \`{prefix}events\` AS e ON e.id = d.event_id;
`,
  },
  {
    version: 2,
    name: 'add_settings',
    sql: `-- What operators set for a destination while it runs, as JSON. A process that does not know the column works without it.
ALTER TABLE \`{prefix}destinations\` ADD COLUMN settings TEXT;
`,
  },
  {
    version: 3,
    name: 'add_breakers',
    sql: `-- Breakers of a worker that are open, as JSON: how long before the end of its lease each was opened. A process that does not
-- know the column works without it.
ALTER TABLE \`{prefix}workers\` ADD COLUMN breakers TEXT;
`,
  },
  {
    version: 4,
    name: 'add_lease_ms',
    sql: `-- For how long a worker leases, so that others know how long it may count on what it last renewed. A process that does not know
-- the column works without it.
ALTER TABLE \`{prefix}workers\` ADD COLUMN lease_ms INT UNSIGNED;
`,
  },
] as const
