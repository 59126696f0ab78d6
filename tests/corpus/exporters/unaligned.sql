-- The same with the flags of plinth sql: no headings, no alignment, a bar between the columns
-- usage: plinth sql -t -A -F '|' < unaligned.sql
select name, type, state from v$asm_diskgroup order by name;
select count(*) from v$asm_disk where mode_status = 'OFFLINE';
