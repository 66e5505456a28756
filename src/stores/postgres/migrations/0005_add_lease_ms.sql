-- For how long a worker leases, so that others know how long it may count on what it last renewed. A process that does not know
-- the column works without it.
-- Whoever cannot have the lock soon would let everybody else wait: the next start tries again.
SET LOCAL lock_timeout = '5s';
ALTER TABLE {schema}."{prefix}workers" ADD COLUMN lease_ms integer;
