#!/bin/bash
# Read and write errors of all disks, from asmcmd iostat -e
# usage: ./iostat_errors.sh
asmcmd iostat -e | awk '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    NF { errors += $at["Read_Err"] + $at["Write_Err"]; disks++ }
    END { print disks " disks, " errors + 0 " errors"; exit errors > 0 }'
