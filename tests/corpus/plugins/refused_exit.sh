#!/bin/bash
# WHENEVER SQLERROR EXIT SQL.SQLCODE from a pipe: the shell sees that it failed
# usage: ./refused_exit.sh
plinth sql > /dev/null 2>&1 <<'SQL'
WHENEVER SQLERROR EXIT FAILURE
ALTER DISKGROUP lab ONLINE DISK nodisk;
ALTER DISKGROUP lab ADD DIRECTORY '+LAB/must_not_be';
SQL
echo "piped: $?"
plinth sql -c "ALTER DISKGROUP lab ONLINE DISK nodisk" > /dev/null 2>&1
echo "with -c: $?"
asmcmd ls +lab | grep -c must_not_be
