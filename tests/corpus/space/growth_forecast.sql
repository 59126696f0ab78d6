-- Days until a group is full at a given growth per day: @growth_forecast GROUP MB_PER_DAY
-- usage: sqlplus -S / as sysasm @growth_forecast FRA 1
-- mask: /about (\d+) days/
set verify off feedback off heading off pagesize 0 linesize 80
select name || ': full in about ' || floor(usable_file_mb / &2) || ' days at ' || &2 || ' MB a day'
  from v$asm_diskgroup
 where name = upper('&1');
