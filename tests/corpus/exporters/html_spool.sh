#!/bin/bash
# A job that spools a document of HTML for a web server, and looks whether it is whole
# usage: ./html_spool.sh
sqlplus -S -M "HTML ON SPOOL ON HEAD '<title>Groups</title>' BODY \"bgcolor='white'\" TABLE ''" / as sysasm > /dev/null <<'SQL'
set feedback off
spool groups.html
select name, type from v$asm_diskgroup where name in ('DATA', 'OLD') order by name;
spool off
exit
SQL
tr -d '\n' < groups.html
echo
rm -f groups.html
