-- The server reads the text of a table's constraints again for every statement that inserts into it. These two cost a
-- publish more than all indexes of both tables; what they forbid is forbidden by the statements that write the rows.
-- Whoever cannot have the lock soon would let everybody else wait: the next start tries again.
SET LOCAL lock_timeout = '5s';
ALTER TABLE {schema}."{prefix}events" DROP CONSTRAINT "{prefix}events_one_payload";
ALTER TABLE {schema}."{prefix}deliveries" DROP CONSTRAINT "{prefix}deliveries_holders";
