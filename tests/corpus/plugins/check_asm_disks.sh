#!/bin/bash
# Nagios plugin: offline disks by asmcmd lsdg, whose 12th column it reads
# usage: ./check_asm_disks.sh; echo "code $?"; ./check_asm_disks.sh DATA
group=${1:-}
asmcmd lsdg --suppressheader $group | awk '
    { offline += $12; if ($12 > 0) names = names " " $NF }
    END {
        if (offline > 0) { print "CRITICAL: " offline " offline in" names; exit 2 }
        print "OK: no disk is offline in " NR " groups"
    }'
