-- What operators set for a destination while it runs, as JSON. A process that does not know the column works without it.
ALTER TABLE "{prefix}destinations" ADD COLUMN settings TEXT;
