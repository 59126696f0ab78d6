#!/bin/bash
# A loop over disks with their failure groups, from statements on a pipe
# usage: ./while_read.sh
echo "select d.failgroup || ' ' || d.name from v\$asm_disk d join v\$asm_diskgroup g using (group_number)
where g.name = 'FRA' or g.name = 'ARCH' order by g.name, d.name;" |
    plinth sql -S -t | while read -r failgroup disk; do
        [ -n "$disk" ] && echo "$disk in $failgroup"
    done
