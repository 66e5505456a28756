-- Breakers of a worker that are open, as JSON: how long before the end of its lease each was opened. A process that does not
-- know the column works without it.
-- Whoever cannot have the lock soon would let everybody else wait: the next start tries again.
SET LOCAL lock_timeout = '5s';
ALTER TABLE {schema}."{prefix}workers" ADD COLUMN breakers text;
