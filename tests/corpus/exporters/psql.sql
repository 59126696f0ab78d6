-- The same client library as everywhere: psql without alignment, a tab between the columns
-- usage: psql -X -h "$PLINTH_DIR" -A -t -F $'\t' -v ON_ERROR_STOP=1 -f psql.sql
SELECT name, offline_disks, type FROM v$asm_diskgroup ORDER BY name;
SELECT count(*) FROM v$asm_file WHERE group_number = 0;
