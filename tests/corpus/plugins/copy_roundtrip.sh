#!/bin/bash
# Copies a file into a group and out again, compares, and removes it
# usage: ./copy_roundtrip.sh
from=$PWD/roundtrip.tmp
head -c 300000 /dev/zero | tr '\0' 'x' > "$from"
asmcmd mkdir +lab/roundtrip &&
    asmcmd cp "$from" +lab/roundtrip/one | sed "s!$PWD!.!" &&
    asmcmd cp +lab/roundtrip/one "$PWD/back.tmp" | sed "s!$PWD!.!" &&
    cmp "$from" back.tmp && echo same
asmcmd ls -s +lab/roundtrip | awk 'NR == 2 { print $1, $3, $NF }'
asmcmd rm -rf +lab/roundtrip
code=$?
rm -f "$from" back.tmp
exit $code
