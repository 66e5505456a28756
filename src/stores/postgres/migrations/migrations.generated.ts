// Made by `npm run generate` from the .sql files in this folder; change those instead.
export const migrations = [
  {
    version: 1,
    name: 'create_outbox',
    sql: `-- Which migrations this database has.
CREATE TABLE {schema}."{prefix}migrations" (
  version    integer     NOT NULL PRIMARY KEY,
  name       text        NOT NULL,
  applied_at timestamptz NOT NULL
);

-- Positions. A sequence of its own and not an identity column, because activated deliveries draw from it too.
CREATE SEQUENCE {schema}."{prefix}events_seq" AS bigint;

-- Facts, append-only. The payload is \`json\`, which keeps the text as it came; \`jsonb\` would rewrite it.
CREATE TABLE {schema}."{prefix}events" (
  id             uuid        NOT NULL,
  seq            bigint      NOT NULL DEFAULT nextval('{schema}."{prefix}events_seq"'),
  occurred_at    timestamptz NOT NULL,
  created_at     timestamptz NOT NULL,
  replaces_id    uuid,
  version        integer     NOT NULL,
  routes_version integer     NOT NULL,
  size           integer     NOT NULL,
  type           text        COLLATE "C" NOT NULL,
  key            text        COLLATE "C",
  aggregate_type text        COLLATE "C",
  aggregate_id   text        COLLATE "C",
  tenant_id      text        COLLATE "C",
  content_type   text        NOT NULL,
  timed_id       boolean     NOT NULL DEFAULT true,
  headers        json,
  payload        json,
  payload_bytes  bytea,
  CONSTRAINT "{prefix}events_pkey" PRIMARY KEY (id),
  CONSTRAINT "{prefix}events_one_payload" CHECK (num_nonnulls(payload, payload_bytes) = 1)
){by_id}{keep_pages};

-- For the reconciler: events by the routes they were published with.
CREATE INDEX "{prefix}events_routes" ON {schema}."{prefix}events" (routes_version, seq);
-- Ids of ours begin with their time, so old events are found by id. Those that an application brought may not. They
-- have a column that says so, because the server would otherwise look into the id of every event that is inserted.
CREATE INDEX "{prefix}events_other_ids" ON {schema}."{prefix}events" (created_at) WHERE NOT timed_id;

-- A row with another lane or status would be found by no read. The server reads the text of every constraint of a
-- table again for each insert, which costs more than an index; those of types it remembers.
CREATE DOMAIN {schema}."{prefix}delivery_lane" AS smallint CHECK (VALUE BETWEEN 0 AND 63);
CREATE DOMAIN {schema}."{prefix}delivery_status" AS smallint CHECK (VALUE IN (0, 2, 3, 5, 6));

-- Work that is not finished: 0 pending, 2 retry, 3 dead, 5 scheduled, 6 held. Finished rows leave this table.
-- Most rows are inserted, read and removed, so the table is vacuumed early and its dead rows stay few. It is not
-- made shorter, which would lock everybody out, and for the reason at the end of this file.
CREATE TABLE {schema}."{prefix}deliveries" (
  id           uuid        NOT NULL,
  event_id     uuid        NOT NULL,
  seq          bigint      NOT NULL,
  available_at timestamptz NOT NULL,
  created_at   timestamptz NOT NULL,
  settled_at   timestamptz,
  size         integer     NOT NULL,
  run          integer     NOT NULL,
  attempts     integer     NOT NULL DEFAULT 0,
  suspicions   integer     NOT NULL DEFAULT 0,
  lane         {schema}."{prefix}delivery_lane"   NOT NULL,
  status       {schema}."{prefix}delivery_status" NOT NULL,
  holds_key    boolean     NOT NULL DEFAULT false,
  parked       boolean     NOT NULL DEFAULT false,
  destination  text        COLLATE "C" NOT NULL,
  key          text        COLLATE "C",
  token        text        COLLATE "C",
  settled_by   text        COLLATE "C",
  CONSTRAINT "{prefix}deliveries_pkey" PRIMARY KEY (id),
  CONSTRAINT "{prefix}deliveries_holders" CHECK ((status <> 6 OR holds_key) AND (NOT holds_key OR key IS NOT NULL))
) WITH (
  fillfactor = 90,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_limit = 2000,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_analyze_threshold = 1000,
  vacuum_truncate = false
);

CREATE UNIQUE INDEX "{prefix}deliveries_identity" ON {schema}."{prefix}deliveries" (event_id, destination, run);
CREATE INDEX "{prefix}deliveries_fresh" ON {schema}."{prefix}deliveries" (destination, seq) WHERE status = 0;
CREATE INDEX "{prefix}deliveries_hot" ON {schema}."{prefix}deliveries" (destination, available_at) WHERE status = 0 AND token IS NOT NULL;
CREATE INDEX "{prefix}deliveries_due" ON {schema}."{prefix}deliveries" (destination, status, available_at) WHERE status IN (2, 5);
-- Who is before whom in a key, and who keeps a key waiting. Two indexes, because a key may have a million
-- pending rows, and looking for its holder must not walk through them.
CREATE INDEX "{prefix}deliveries_keys" ON {schema}."{prefix}deliveries" (destination, key, seq) WHERE status = 0 AND key IS NOT NULL;
CREATE INDEX "{prefix}deliveries_holders" ON {schema}."{prefix}deliveries" (destination, key, status, seq) WHERE holds_key;
-- For pages and counts of what is not pending. Written so that only statements which repeat it can use it: while
-- there are few such rows the planner would take it for an index as good as those above, and remember that.
CREATE INDEX "{prefix}deliveries_aside" ON {schema}."{prefix}deliveries" (status, id) WHERE status + 0 > 0;
CREATE INDEX "{prefix}deliveries_blocking" ON {schema}."{prefix}deliveries" (destination, seq) WHERE status = 3 AND holds_key AND NOT parked;
CREATE INDEX "{prefix}deliveries_dead" ON {schema}."{prefix}deliveries" (settled_at) WHERE status = 3;

-- History, append-only: 1 done, 4 discarded.
CREATE TABLE {schema}."{prefix}finished" (
  id          uuid        NOT NULL,
  event_id    uuid        NOT NULL,
  seq         bigint      NOT NULL,
  created_at  timestamptz NOT NULL,
  finished_at timestamptz NOT NULL,
  size        integer     NOT NULL,
  run         integer     NOT NULL,
  attempts    integer     NOT NULL,
  suspicions  integer     NOT NULL,
  lane        smallint    NOT NULL,
  status      smallint    NOT NULL CHECK (status IN (1, 4)),
  destination text        COLLATE "C" NOT NULL,
  key         text        COLLATE "C",
  settled_by  text        COLLATE "C",
  CONSTRAINT "{prefix}finished_pkey" PRIMARY KEY (id)
){by_id}{keep_pages};

CREATE INDEX "{prefix}finished_identity" ON {schema}."{prefix}finished" (event_id, destination, run);
CREATE INDEX "{prefix}finished_discarded" ON {schema}."{prefix}finished" (id) WHERE status = 4;
{finished_at}{tails}
-- Few rows that change often: half of each page is left free, so that a change stays on its page.
CREATE TABLE {schema}."{prefix}workers" (
  id           text        COLLATE "C" NOT NULL,
  name         text        NOT NULL,
  started_at   timestamptz NOT NULL,
  expires_at   timestamptz NOT NULL,
  fenced       boolean     NOT NULL DEFAULT false,
  destinations text[]      NOT NULL,
  CONSTRAINT "{prefix}workers_pkey" PRIMARY KEY (id)
) WITH (fillfactor = 50);

-- Lane -1 of a name is a duty: something that one worker at a time does.
CREATE TABLE {schema}."{prefix}lanes" (
  destination text     COLLATE "C" NOT NULL,
  lane        smallint NOT NULL CHECK (lane BETWEEN -1 AND 63),
  worker_id   text     COLLATE "C",
  epoch       bigint   NOT NULL DEFAULT 0,
  CONSTRAINT "{prefix}lanes_pkey" PRIMARY KEY (destination, lane)
) WITH (fillfactor = 50);

CREATE TABLE {schema}."{prefix}attempts" (
  delivery_id uuid        NOT NULL,
  attempt     integer     NOT NULL,
  duration_ms integer     NOT NULL,
  at          timestamptz NOT NULL,
  worker      text        NOT NULL,
  code        text,
  message     text        NOT NULL,
  stack       text,
  CONSTRAINT "{prefix}attempts_pkey" PRIMARY KEY (delivery_id, attempt)
);

CREATE TABLE {schema}."{prefix}dedup" (
  type            text        COLLATE "C" NOT NULL,
  idempotency_key text        COLLATE "C" NOT NULL,
  event_id        uuid        NOT NULL,
  created_at      timestamptz NOT NULL,
  CONSTRAINT "{prefix}dedup_pkey" PRIMARY KEY (type, idempotency_key)
);

CREATE INDEX "{prefix}dedup_created" ON {schema}."{prefix}dedup" (created_at);

CREATE TABLE {schema}."{prefix}destinations" (
  name            text        COLLATE "C" NOT NULL,
  patterns        text[]      NOT NULL,
  patterns_from   bigint[]    NOT NULL,
  version         integer     NOT NULL,
  started_at      timestamptz NOT NULL,
  reconciled_to   bigint      NOT NULL,
  paused          boolean     NOT NULL DEFAULT false,
  rate_per_second double precision,
  CONSTRAINT "{prefix}destinations_pkey" PRIMARY KEY (name)
);

CREATE TABLE {schema}."{prefix}audit" (
  id     bigint      GENERATED ALWAYS AS IDENTITY,
  at     timestamptz NOT NULL,
  actor  text        NOT NULL,
  action text        NOT NULL,
  reason text,
  target text        NOT NULL,
  count  integer     NOT NULL,
  CONSTRAINT "{prefix}audit_pkey" PRIMARY KEY (id)
);

-- Per minute. At minute "epoch" are the totals of "{prefix}finished". Part 0 is the sum so far, and each
-- transaction that writes there adds parts of its own, because one row for all would make settles wait.
CREATE TABLE {schema}."{prefix}stats" (
  minute      timestamptz NOT NULL,
  destination text        COLLATE "C" NOT NULL,
  part        bigint      NOT NULL DEFAULT 0,
  done        bigint      NOT NULL,
  discarded   bigint      NOT NULL,
  failed      bigint      NOT NULL,
  pending     bigint      NOT NULL,
  dead        bigint      NOT NULL,
  CONSTRAINT "{prefix}stats_pkey" PRIMARY KEY (minute, destination, part)
);

-- Unfinished and finished work together, the way an outbox in one table looks.
CREATE VIEW {schema}."{prefix}all" AS
SELECT
  d.event_id,
  d.id AS delivery_id,
  d.seq,
  e.type,
  e.aggregate_type,
  e.aggregate_id,
  e.tenant_id,
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
  (SELECT a.message FROM {schema}."{prefix}attempts" a WHERE a.delivery_id = d.id ORDER BY a.attempt DESC LIMIT 1) AS last_error,
  e.headers,
  e.payload,
  e.payload_bytes
FROM (
  SELECT id, event_id, seq, destination, run, lane, key, status, attempts, suspicions, created_at,
         CASE status WHEN 3 THEN NULL ELSE available_at END AS available_at, NULL::timestamptz AS finished_at
  FROM {schema}."{prefix}deliveries"
  UNION ALL
  SELECT id, event_id, seq, destination, run, lane, key, status, attempts, suspicions, created_at,
         NULL::timestamptz, finished_at
  FROM {schema}."{prefix}finished"
) AS d LEFT JOIN {schema}."{prefix}events" AS e ON e.id = d.event_id;

-- For triggers and other languages: one event whose routes a worker finds. Returns its id, or the id of the
-- first event with this type and idempotency key.
CREATE FUNCTION {schema}."{prefix}publish_event"(
  type            text,
  payload         json,
  key             text        DEFAULT NULL,
  headers         json        DEFAULT NULL,
  aggregate_type  text        DEFAULT NULL,
  aggregate_id    text        DEFAULT NULL,
  tenant_id       text        DEFAULT NULL,
  version         integer     DEFAULT 1,
  occurred_at     timestamptz DEFAULT NULL,
  delay           interval    DEFAULT NULL,
  idempotency_key text        DEFAULT NULL
) RETURNS uuid LANGUAGE plpgsql SET search_path = pg_catalog AS $body$
#variable_conflict use_variable
DECLARE
  at_now   timestamptz := clock_timestamp();
  due      timestamptz := at_now + coalesce(delay, interval '0');
  digits   text := replace(gen_random_uuid()::text, '-', '');
  new_id   uuid := (lpad(to_hex(floor(extract(epoch FROM at_now) * 1000)::bigint), 12, '0')
                    || '7' || substr(digits, 14, 3) || substr(digits, 17))::uuid;
  of_lane  bytea := convert_to(coalesce(key, new_id::text), 'UTF8');
  hash     bigint := 2166136261;
  bytes    integer := octet_length(payload::text);
  place    bigint;
  first_id uuid;
BEGIN
  IF type IS NULL OR type = '' OR payload IS NULL THEN
    RAISE EXCEPTION 'publish_event needs a type and a payload' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  -- The same bounds as in the library, because workers expect them to be kept.
  IF position('*' IN type) > 0 OR version IS NULL OR version NOT BETWEEN 1 AND 32767 THEN
    RAISE EXCEPTION 'publish_event needs a type without "*" and a version from 1 to 32767' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF length(type) > 128 OR length(key) > 255 OR length(idempotency_key) > 255 OR length(aggregate_id) > 128
    OR length(aggregate_type) > 64 OR length(tenant_id) > 64 THEN
    RAISE EXCEPTION 'publish_event takes at most 128 characters for type and aggregate_id, 255 for key and idempotency_key, 64 for aggregate_type and tenant_id'
      USING ERRCODE = 'string_data_right_truncation';
  END IF;
  IF json_typeof(headers) <> 'object' THEN
    RAISE EXCEPTION 'the headers of publish_event must be an object of texts' USING ERRCODE = 'invalid_parameter_value';
  ELSIF headers IS NOT NULL THEN
    IF EXISTS (SELECT 1 FROM json_each(headers) AS h WHERE json_typeof(h.value) <> 'string') THEN
      RAISE EXCEPTION 'the headers of publish_event must be an object of texts' USING ERRCODE = 'invalid_parameter_value';
    END IF;
  END IF;
  -- What no calendar of the readers has would be an error in whatever reads it together with others.
  IF occurred_at NOT BETWEEN '0001-01-01' AND '9999-12-31' OR due NOT BETWEEN '0001-01-01' AND '9999-12-31' THEN
    RAISE EXCEPTION 'publish_event needs times between the years 1 and 9999' USING ERRCODE = 'datetime_field_overflow';
  END IF;
  IF bytes > 1048576 THEN
    RAISE EXCEPTION 'the payload has % bytes, more than 1048576', bytes USING ERRCODE = 'program_limit_exceeded';
  END IF;
  IF idempotency_key IS NOT NULL THEN
    INSERT INTO {schema}."{prefix}dedup" (type, idempotency_key, event_id, created_at)
    VALUES (type, idempotency_key, new_id, at_now) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
      SELECT k.event_id INTO first_id FROM {schema}."{prefix}dedup" AS k
      WHERE k.type = type AND k.idempotency_key = idempotency_key;
      RETURN first_id;
    END IF;
  END IF;
  FOR i IN 0 .. length(of_lane) - 1 LOOP
    hash := ((hash # get_byte(of_lane, i)) * 16777619) & 4294967295;
  END LOOP;
  -- The transaction has an id before it draws a position: see the insert of the library.
  PERFORM pg_current_xact_id();
  place := nextval('{schema}."{prefix}events_seq"');
  INSERT INTO {schema}."{prefix}events" (id, seq, occurred_at, created_at, version, routes_version, size, type, key,
    aggregate_type, aggregate_id, tenant_id, content_type, headers, payload)
  VALUES (new_id, place, coalesce(occurred_at, at_now), at_now, version, 0, bytes, type, key,
    aggregate_type, aggregate_id, tenant_id, 'application/json', headers, payload);
  INSERT INTO {schema}."{prefix}deliveries" (id, event_id, seq, available_at, created_at, size, run, lane, status, destination, key)
  VALUES (new_id, new_id, place, greatest(due, at_now), at_now, bytes, 1, (hash # (hash >> 16)) & 63,
    CASE WHEN due > at_now THEN 5 ELSE 0 END, '*', key);
  RETURN new_id;
END
$body$;

-- The server remembers the plans of prepared statements. One that was made while a table was empty would read it
-- from end to end, and go on doing so when it is full. What counts for the planner are the table's pages, so each
-- table gets a few, by rows that are removed again.
INSERT INTO {schema}."{prefix}events" (id, occurred_at, created_at, version, routes_version, size, type, content_type, payload)
SELECT gen_random_uuid(), now(), now(), 1, 0, 0, '', '', to_json(repeat('x', 1900)) FROM generate_series(1, 256);
INSERT INTO {schema}."{prefix}deliveries" (id, event_id, seq, available_at, created_at, size, run, lane, status, destination, settled_by)
SELECT gen_random_uuid(), gen_random_uuid(), n, now(), now(), 0, 1, 0, 0, '', repeat('x', 1900) FROM generate_series(1, 256) AS n;
INSERT INTO {schema}."{prefix}finished" (id, event_id, seq, created_at, finished_at, size, run, attempts, suspicions, lane, status, destination, settled_by)
SELECT gen_random_uuid(), gen_random_uuid(), n, now(), now(), 0, 1, 0, 0, 0, 1, '', repeat('x', 1900) FROM generate_series(1, 256) AS n;
DELETE FROM {schema}."{prefix}events";
DELETE FROM {schema}."{prefix}deliveries";
DELETE FROM {schema}."{prefix}finished";
SELECT setval('{schema}."{prefix}events_seq"', 1, false);
`,
  },
  {
    version: 2,
    name: 'drop_checks',
    sql: `-- The server reads the text of a table's constraints again for every statement that inserts into it. These two cost a
-- publish more than all indexes of both tables; what they forbid is forbidden by the statements that write the rows.
-- Whoever cannot have the lock soon would let everybody else wait: the next start tries again.
SET LOCAL lock_timeout = '5s';
ALTER TABLE {schema}."{prefix}events" DROP CONSTRAINT "{prefix}events_one_payload";
ALTER TABLE {schema}."{prefix}deliveries" DROP CONSTRAINT "{prefix}deliveries_holders";
`,
  },
  {
    version: 3,
    name: 'add_settings',
    sql: `-- What operators set for a destination while it runs, as JSON. A process that does not know the column works without it.
-- Whoever cannot have the lock soon would let everybody else wait: the next start tries again.
SET LOCAL lock_timeout = '5s';
ALTER TABLE {schema}."{prefix}destinations" ADD COLUMN settings text;
`,
  },
  {
    version: 4,
    name: 'add_breakers',
    sql: `-- Breakers of a worker that are open, as JSON: how long before the end of its lease each was opened. A process that does not
-- know the column works without it.
-- Whoever cannot have the lock soon would let everybody else wait: the next start tries again.
SET LOCAL lock_timeout = '5s';
ALTER TABLE {schema}."{prefix}workers" ADD COLUMN breakers text;
`,
  },
  {
    version: 5,
    name: 'add_lease_ms',
    sql: `-- For how long a worker leases, so that others know how long it may count on what it last renewed. A process that does not know
-- the column works without it.
-- Whoever cannot have the lock soon would let everybody else wait: the next start tries again.
SET LOCAL lock_timeout = '5s';
ALTER TABLE {schema}."{prefix}workers" ADD COLUMN lease_ms integer;
`,
  },
  {
    version: 6,
    name: 'add_insert_one',
    sql: `-- One event of JSON with one delivery that is due at once, which is what most publishes are. Libraries that prepare nothing
-- let the server read and plan a statement each time it is sent; what a function does it plans once for each connection.
-- A process that does not know the function works without it.
-- Everything comes as text, as in the other inserts. Answers with true, because not every library can read nothing.
CREATE FUNCTION {schema}."{prefix}insert_one"(
  id             text,
  occurred_ms    text,
  version        text,
  routes_version text,
  size           text,
  type           text,
  key            text,
  aggregate_type text,
  aggregate_id   text,
  tenant_id      text,
  content_type   text,
  headers        text,
  payload        text,
  delivery_id    text,
  lane           text,
  destination    text,
  token          text,
  lease_ms       text
) RETURNS boolean LANGUAGE plpgsql AS $body$
#variable_conflict use_variable
DECLARE
  -- The transaction has an id before it draws a position: see the insert of the library.
  writer xid8        := pg_current_xact_id();
  place  bigint      := nextval('{schema}."{prefix}events_seq"');
  at_now timestamptz := clock_timestamp();
BEGIN
  INSERT INTO {schema}."{prefix}events" (id, seq, occurred_at, created_at, version, routes_version, size, type, key,
    aggregate_type, aggregate_id, tenant_id, content_type, timed_id, headers, payload)
  VALUES (id::uuid, place, timestamptz 'epoch' + occurred_ms::float8 * interval '1 millisecond', at_now,
    version::integer, routes_version::integer, size::integer, type, key, aggregate_type, aggregate_id, tenant_id, content_type,
    substr(id, 15, 1) = '7', headers::json, payload::json);
  INSERT INTO {schema}."{prefix}deliveries" (id, event_id, seq, available_at, created_at, size, run, lane, status, destination, key, token)
  VALUES (delivery_id::uuid, id::uuid, place, coalesce(at_now + lease_ms::float8 * interval '1 millisecond', at_now), at_now,
    size::integer, 1, lane::smallint, 0, destination, key, token);
  RETURN true;
END
$body$;
`,
  },
] as const
