-- For how long a worker leases, so that others know how long it may count on what it last renewed. A process that does not know
-- the column works without it.
ALTER TABLE `{prefix}workers` ADD COLUMN lease_ms INT UNSIGNED;
