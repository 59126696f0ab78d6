-- Bytes by disk against a limit in a bind variable
SET FEEDBACK OFF PAGESIZE 20 LINESIZE 60
VARIABLE lim NUMBER
EXEC :lim := 1024 * 1024 * 1024 * 1024
PRINT lim
SELECT COUNT(*) above_limit FROM v$asm_disk_stat WHERE bytes_read + bytes_written > :lim;
