#!/bin/bash
# Megabytes below each directory at the top of a group, by asmcmd ls and du
# usage: ./du_report.sh DATA
for directory in $(asmcmd ls "+$1" | grep '/$'); do
    asmcmd du --suppressheader "+$1/$directory" | awk -v d="$directory" '{ printf "%-12s %s\n", d, $1 }'
done
