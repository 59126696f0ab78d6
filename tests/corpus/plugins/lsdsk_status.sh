#!/bin/bash
# Disks that are not as they should be, from the columns of lsdsk -p
# usage: ./lsdsk_status.sh
asmcmd lsdsk -p -G old | awk '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["Mode_Stat"] != "ONLINE" { print "disk " $at["Disk_Num"] " is " $at["Mode_Stat"]; n++ }
    END { print n + 0 " bad"; exit n > 0 }'
