CREATE INDEX IF NOT EXISTS file_type ON file (coalesce(type, 'DATAFILE')) WHERE kind = 32768;
