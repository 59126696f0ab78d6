-- Columns between bars, heading included, for people who paste it into a wiki
set colsep ' | ' linesize 80 pagesize 30 feedback off underline '='
column name format a8
column type format a6
column state format a8
select name, type, state, offline_disks from v$asm_diskgroup order by name;
