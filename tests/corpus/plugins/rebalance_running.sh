#!/bin/bash
# Waits until no rebalance runs, by lsop; prints how it ended
# usage: ./rebalance_running.sh lab
plinth rebal --power 5 -w "$1" || exit 1
for try in 1 2 3 4 5 6 7 8 9 10; do
    running=$(asmcmd lsop --suppressheader "$1" | awk '$3 == "RUN" || $3 == "WAIT"' | wc -l)
    [ "$running" -eq 0 ] && { echo "no rebalance runs"; exit 0; }
    sleep 1
done
echo "a rebalance still runs"
exit 1
