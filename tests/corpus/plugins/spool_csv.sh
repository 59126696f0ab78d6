#!/bin/bash
# A job that spools a CSV file quietly, and another program that reads it
# usage: ./spool_csv.sh
sqlplus -S / as sysasm > /dev/null <<'SQL'
set markup csv on
set feedback off termout off
spool groups.tmp
select name, type, offline_disks from v$asm_diskgroup order by name;
spool off
exit
SQL
awk -F, 'NR > 1 { gsub(/"/, ""); print $1 "=" $3 }' <(grep . groups.tmp)
rm -f groups.tmp
