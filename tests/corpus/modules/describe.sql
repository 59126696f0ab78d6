-- DESC of a view: the names of its columns
-- usage: sqlplus -S / as sysasm @describe | awk 'NR > 2 && NF { print $1 }'
DESC v$asm_user
