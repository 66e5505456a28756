-- What operators set for a destination while it runs, as JSON. A process that does not know the column works without it.
-- Whoever cannot have the lock soon would let everybody else wait: the next start tries again.
SET LOCAL lock_timeout = '5s';
ALTER TABLE {schema}."{prefix}destinations" ADD COLUMN settings text;
