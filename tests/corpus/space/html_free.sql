-- Group names and sizes as CSV with a heading line, for a spreadsheet
set markup csv on
set feedback off
select name as "Disk group", total_mb as "Total MB", type as "Redundancy"
  from v$asm_diskgroup
 order by name;
