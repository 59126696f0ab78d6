#!/bin/bash
# A mirrored log write with one failure group farther away (`what_if.delay`), against the model: the time without a delay, and the
# delay for each round trip.
#
#   bench/what-if.sh [-d DELAYS=0.1,0.5,1,5] [-t SECONDS=5] [-r ROUNDS=3] [-b BASE=/dev/shm] [-p PROFILE=release] [-x PROGRAM]
#
# A group in NORMAL redundancy with two failure groups, NEAR and FAR, on files in BASE. Writes of 8 KiB, one after the other in a file,
# each durable before it counts, in a closed loop. DELAYS are milliseconds; each is measured ROUNDS times by turns, and the median of
# the medians counts. The number of round trips is the whole number that fits the largest delay best.
#
# BASE is in memory, as both mirrors on one device wait for each other without a delay, and not with one: the model knows nothing of that.
#
# PROGRAM is a `plinth` that is built already. The table goes to standard output as Markdown, everything else to standard error.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
. scripts/common.sh
. scripts/near-and-far.sh
delays=0.1,0.5,1,5 seconds=5 rounds=3 base=/dev/shm profile=release program=""
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }
while getopts d:t:r:b:p:x:h option; do
    case $option in
        d) delays=$OPTARG ;; t) seconds=$OPTARG ;; r) rounds=$OPTARG ;; b) base=$OPTARG ;;
        p) profile=$OPTARG ;; x) program=$OPTARG ;; h) usage; exit ;; *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1)); [ $# = 0 ] || { usage >&2; exit 2; }
become_root "$0" -d "$delays" -t "$seconds" -r "$rounds" -b "$base" -p "$profile" ${program:+-x "$program"}
PATH=$PATH:/usr/sbin:/sbin
exec 3>&1 1>&2
start_near_and_far 256M
printf '[log-write]\nrate = 100\nsize = 8192\n' >"$W/writes.toml"

# The median of a run, in microseconds, from the line of its class.
median() {
    awk '$1 == "log" && $2 == "write" && $3 + 0 > 0 && NF > 10 {
        factor = $10 == "us" ? 1 : $10 == "ms" ? 1000 : $10 == "s" ? 1000000 : 0
        if (factor) { print $9 * factor; exit }
    }' "$1"
}
IFS=, read -ra delays <<<"$delays"
for round in $(seq "$rounds"); do
    for delay in 0 "${delays[@]}"; do
        note "round $round: $delay ms"
        if [ "$delay" = 0 ]; then far_away 0; else far_away "${delay}ms"; fi
        "$PLINTH" load run "$W/writes.toml" "$W/plinth/file" --force-overwrite --closed --ramp 1 --seconds "$seconds" >"$W/run.log" 2>&1 \
            || { cat "$W/run.log"; fail "the load ended early"; }
        found=$(median "$W/run.log"); [ -n "$found" ] || { cat "$W/run.log"; fail "no median"; }
        echo "$delay $found" >>"$W/medians"
    done
done
sort -k1,1g -k2,2g "$W/medians" | awk -v rounds="$rounds" '
    { values[$1, ++count[$1]] = $2; if (!($1 in seen)) { seen[$1] = 1; order[++n] = $1 } }
    END {
        middle = int((rounds + 1) / 2); base = values[0, middle]; far = order[n] * 1000
        trips = int((values[order[n], middle] - base) / far + 0.5)
        printf "A mirrored log write of 8 KiB, median; %d round trip%s to FAR.\n\n", trips, trips == 1 ? "" : "s"
        print "| FAR is away, ms | measured, µs | model, µs | apart |\n| ---: | ---: | ---: | ---: |"
        for (i = 1; i <= n; i++) {
            model = base + order[i] * 1000 * trips; found = values[order[i], middle]
            printf "| %s | %.0f | %.0f | %+.1f %% |\n", order[i], found, model, (found / model - 1) * 100
        }
    }' >&3
