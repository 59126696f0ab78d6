-- Which columns a view has, before a module uses a new one: information_schema in a psql client
-- usage: psql -X -h "$PLINTH_DIR" -At -f columns.sql
SELECT column_name
  FROM information_schema.columns
 WHERE table_name = 'v$asm_template'
 ORDER BY ordinal_position;
