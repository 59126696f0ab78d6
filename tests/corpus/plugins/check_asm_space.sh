#!/bin/bash
# Nagios plugin: percentage used of each group against two limits, by sqlplus
# usage: ./check_asm_space.sh 80 90
# mask: /=(\d+(?:\.\d+)?)%/
warn=${1:-85} crit=${2:-95}
out=$(sqlplus -S -L / as sysasm <<SQL
set heading off feedback off pagesize 0 linesize 200 verify off
whenever sqlerror exit 3
select name || ' ' || round(100 * (total_mb - free_mb) / total_mb, 1)
  from v\$asm_diskgroup where total_mb > 0 order by name;
exit
SQL
) || { echo "UNKNOWN: $out"; exit 3; }
echo "$out" | awk -v w="$warn" -v c="$crit" '
    NF == 2 {
        if ($2 + 0 >= c) { level = 2 } else if ($2 + 0 >= w && level < 2) { level = 1 }
        perf = perf " " $1 "=" $2 "%;" w ";" c
        n++
    }
    END {
        split("OK WARNING CRITICAL", word, " ")
        printf "%s: %d groups |%s\n", word[level + 1], n, perf
        exit level
    }'
