-- First half of a delta: counters of all groups into substitution variables, by NEW_VALUE
-- usage: sqlplus -S / as sysasm @delta_begin
-- mask: /(\d+) reads and (\d+) writes/
SET TERMOUT OFF FEEDBACK OFF VERIFY OFF
COLUMN r NEW_VALUE reads_then
COLUMN w NEW_VALUE writes_then
SELECT SUM(reads) r, SUM(writes) w FROM v$asm_disk_stat;
SET TERMOUT ON
@@delta_end.inc Since
