-- One event of JSON with one delivery that is due at once, which is what most publishes are. Libraries that prepare nothing
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
