#!/bin/bash
# Nagios plugin: each mirrored group must have at least N failure groups with all disks online
# usage: ./check_asm_failgroups.sh 2
needed=$1
bad=0
while IFS='|' read -r name healthy; do
    if [ "$healthy" -lt "$needed" ]; then
        echo "CRITICAL: $name has $healthy healthy failure groups, $needed are needed"
        bad=2
    else
        echo "OK: $name has $healthy"
    fi
done < <(plinth sql -S -t -A -F '|' -c "
    SELECT name, SUM(healthy)
      FROM (SELECT g.name, d.failgroup, MIN(DECODE(d.mode_status, 'ONLINE', 1, 0)) healthy
              FROM v\$asm_diskgroup g, v\$asm_disk d
             WHERE d.group_number = g.group_number AND g.type <> 'EXTERN'
             GROUP BY g.name, d.failgroup)
     GROUP BY name ORDER BY name")
exit $bad
