#!/bin/bash
# Prints free megabytes of one group: lsdg by awk, the column found by its heading
# usage: ./free_mb.sh FRA
# mask: /^(\d+)$/
asmcmd lsdg "$1" | awk '
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == "Free_MB") column = i; next }
    { print $column }'
