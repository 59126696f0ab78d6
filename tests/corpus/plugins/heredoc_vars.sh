#!/bin/bash
# Shell variables in a here-document, values back into the shell by read
# usage: ./heredoc_vars.sh arch
read -r name type disks < <(sqlplus -S / as sysasm <<SQL
set heading off feedback off pagesize 0
select g.name, g.type, count(*)
from v\$asm_diskgroup g, v\$asm_disk d
where g.group_number = d.group_number and g.name = upper('$1')
group by g.name, g.type;
SQL
)
echo "name=$name type=$type disks=$disks"
