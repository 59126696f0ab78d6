#!/bin/bash
# The value of the local read: latencies of single block reads with one failure group farther away, for three settings of the
# preferred failure group, as a histogram and as one page.
#
#   bench/preferred-read.sh [-d DELAY=0.3ms] [-t SECONDS=30] [-r READS_PER_SECOND=1000] [-s FILE_SIZE=512M] [-o PAGE=preferred-read.html]
#                           [-b BASE=/var/tmp] [-p PROFILE=release] [-x PROGRAM]
#
# A group in NORMAL redundancy with two failure groups, NEAR and FAR, of which FAR is as far away as DELAY says (`what_if.delay`). Reads of
# 8 KiB at random places of one file, with direct I/O:
#
#   1. no failure group is preferred: the engine chooses by the latencies that it measures;
#   2. FAR is preferred;
#   3. NEAR is preferred.
#
# PROGRAM is a `plinth` that is built already. The table goes to standard output, the page to PAGE, everything else to standard error.
set -euo pipefail
from=$PWD
cd "$(dirname "$(realpath "$0")")/.."
. scripts/common.sh
delay=0.3ms seconds=30 reads=1000 size=512M page=preferred-read.html base=/var/tmp profile=release program=""
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }
while getopts d:t:r:s:o:b:p:x:h option; do
    case $option in
        d) delay=$OPTARG ;; t) seconds=$OPTARG ;; r) reads=$OPTARG ;; s) size=$OPTARG ;; o) page=$OPTARG ;; b) base=$OPTARG ;;
        p) profile=$OPTARG ;; x) program=$OPTARG ;; h) usage; exit ;; *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1)); [ $# = 0 ] || { usage >&2; exit 2; }
case $page in /*) ;; *) page=$from/$page ;; esac
become_root "$0" -d "$delay" -t "$seconds" -r "$reads" -s "$size" -o "$page" -b "$base" -p "$profile" ${program:+-x "$program"}
PATH=$PATH:/usr/sbin:/sbin
exec 3>&1 1>&2
. scripts/near-and-far.sh
start_near_and_far "$size"
far_away "$delay"
printf '[random-read]\nrate = %s\nsize = 8192\n' "$reads" >"$W/reads.toml"

# measure NAME LABEL PREFERRED: reads with this setting.
measure() {
    note "$2"
    sql "ALTER SYSTEM SET asm_preferred_read_failure_groups = '$3'"
    "$PLINTH" load run "$W/reads.toml" "$W/plinth/file" --ramp 3 --seconds "$seconds" --label "$2" --output "$W/$1.json" >"$W/$1.log" \
        || { cat "$W/$1.log"; fail "the load ended early"; }
}
measure none "none preferred" ''
measure far "far preferred" WHATIF.FAR
measure near "near preferred" WHATIF.NEAR
"$PLINTH" load compare "$W/none.json" "$W/far.json" "$W/near.json" --html "$W/page.html" \
    --title "Reads with one failure group $delay away" >&3
mv "$W/page.html" "$page"
note "the picture: $page"
