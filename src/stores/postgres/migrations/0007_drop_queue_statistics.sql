-- What columns of the queue hold is what they held when the server looked last. Of a queue that was emptied and vacuumed it
-- concludes that walking an index means to read all pages of the table: it would rather find all rows by another index and sort
-- them, and go on doing so while the queue fills. Without statistics of the columns that indexes begin with, they are always the best.
-- Whoever cannot have the lock soon would let everybody else wait: the next start tries again.
SET LOCAL lock_timeout = '5s';
ALTER TABLE {schema}."{prefix}deliveries"
  ALTER COLUMN id SET STATISTICS 0,
  ALTER COLUMN destination SET STATISTICS 0;{keep_tails}
