-- Breakers of a worker that are open, as JSON: how long before the end of its lease each was opened. A process that does not
-- know the column works without it.
ALTER TABLE `{prefix}workers` ADD COLUMN breakers TEXT;
