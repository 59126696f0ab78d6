#!/bin/bash
# What a script sees that forgets WHENEVER: a refused statement, its number, and an exit code that is not 0
# refused: ORA-15054
# usage: ./sqlplus_failed.sh
out=$(sqlplus -S / as sysasm <<'SQL'
alter diskgroup lab offline disk nodisk;
exit
SQL
)
code=$?
echo "exit code $code"
echo "$out" | grep -o 'ORA-[0-9]*' | sort -u
