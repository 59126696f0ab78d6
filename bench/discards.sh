#!/bin/bash
# The latency of clients while deleted space goes back to devices that stop for each discard.
#
#   bench/discards.sh [-f FILE=256M] [-m MILLISECONDS=50] [-t SECONDS=60] [-p DEBUG] [-b BASE=/var/tmp]
#
# A group in NORMAL redundancy on two disks that `plinth-slow` serves from sparse files in BASE: a discard takes MILLISECONDS, whatever
# its size, and all other I/O of the disk waits for its end. Two programs read and write 8 KiB at random places of a file, with direct
# I/O, each one request at a time:
#
#   1. for SECONDS, while nothing is deleted;
#   2. while a file of FILE bytes goes back that was deleted just before, as the attributes are by default;
#   3. as 1 once more: the mean of both is what 2 and 4 are compared with;
#   4. as 2 with a file of eight times FILE and `discard.pace` = `unpaced`.
#
# 2 and 4 last until all has gone back. With `-p debug` it measures a build for tests, of which only the ratios
# mean something. The table goes to standard output as Markdown, everything else to standard error.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
. scripts/common.sh
file=256M delay=50 seconds=60 profile=release base=/var/tmp
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }
while getopts f:m:t:p:b:h option; do
    case $option in
        f) file=$OPTARG ;; m) delay=$OPTARG ;; t) seconds=$OPTARG ;; p) profile=$OPTARG ;; b) base=$OPTARG ;;
        h) usage; exit ;; *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1)); [ $# = 0 ] || { usage >&2; exit 2; }
become_root "$0" -f "$file" -m "$delay" -t "$seconds" -p "$profile" -b "$base"
PATH=$PATH:/usr/sbin:/sbin
exec 3>&1 1>&2

need fusermount3 fuse3 "to mount Plinth" fio fio "the load"
build "$profile"
flag=(); [ "$profile" = release ] && flag=(--release)
cargo build --locked -p plinth-tests --bin plinth-slow "${flag[@]}" || fail "the build failed"
SLOW=$(dirname "$PLINTH")/plinth-slow

[ -d "$base" ] || fail "$base is no directory"
W=$(mktemp -d /tmp/plinth-bench.XXXXXX); chmod 755 "$W"
images=$(mktemp -d "$base/plinth-bench.XXXXXX")
servers=()
clean_up() {
    trap - EXIT INT TERM
    set +e
    cd /
    # A program that a stopped device keeps waiting does not end by itself.
    [ -n "${load:-}" ] && { pkill -KILL -P "$load"; kill -KILL "$load"; wait "$load"; }
    PLINTH_DIR=$W/run timeout 60 "$PLINTH" shutdown --force
    mountpoint -q "$W/plinth" && { umount "$W/plinth" || umount -l "$W/plinth"; }
    for number in a b; do umount -l "$W/disks/$number"; done
    for server in "${servers[@]}"; do kill "$server"; done
    rm -rf --one-file-system "$images" "$W"
} >/dev/null 2>&1
trap clean_up EXIT; trap 'exit 130' INT; trap 'exit 143' TERM

mkdir -p "$W"/{plinth,run,disks/a,disks/b}
size=$(numfmt --from=iec "$file")
for number in a b; do
    truncate -s $((size * 16 + (1 << 30))) "$images/$number"
    mkfifo "$W/words.$number"
    "$SLOW" "$W/disks/$number" "$images/$number" <"$W/words.$number" >"$W/slow.$number" 3>&- &
    servers+=($!)
done
# Their standard input stays open until the end.
exec 4>"$W/words.a" 5>"$W/words.b"
for number in a b; do
    for _ in $(seq 100); do grep -q ready "$W/slow.$number" && break; sleep 0.1; done
done
export PLINTH_DIR=$W/run
setsid "$PLINTH" serve --dir "$W/run" --diskstring "$W/disks/*/disk" </dev/null >"$W/serve.log" 2>&1 3>&- 4>&- 5>&- &
for _ in $(seq 100); do "$PLINTH" sql -c 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.1; done
sql() { "$PLINTH" sql -c "$1" >"$W/sql.log" 2>&1 || { cat "$W/sql.log" "$W/serve.log"; fail "$1"; }; }
# The last word of the answer, which is one number.
number() { "$PLINTH" sql -c "$1" | grep -oE '^ *[0-9]+ *$' | tail -1 | tr -d ' '; }
sql "CREATE DISKGROUP data NORMAL REDUNDANCY FAILGROUP a DISK '$W/disks/a/disk' FAILGROUP b DISK '$W/disks/b/disk'"
"$PLINTH" mount DATA "$W/plinth" 3>&- 4>&- 5>&-
waiting() { number 'SELECT sum(waiting + in_flight) FROM v$asm_disk_thin'; }
wait_for_discards() { while [ "$(waiting)" != 0 ]; do sleep 1; done; }
fill() { fio --name=fill --filename="$W/plinth/$1" --size="$2" --rw=write --bs=1M --refill_buffers --end_fsync=1 >"$W/fio.log" || { cat "$W/fio.log"; fail "fio"; }; }
note "filling"
fill file 256M
wait_for_discards
for words in 4 5; do echo "discards $((delay * 1000))" >&$words; done

load() {
    fio --name=load --filename="$W/plinth/file" --rw=randrw --bs=8k --direct=1 --ioengine=psync --numjobs=2 --time_based --runtime="$2" \
        --group_reporting --output-format=json --output="$W/$1.json" >/dev/null 2>&1 4>&- 5>&- &
    load=$!
}
# percentile NAME PERCENTILE: the larger of the values for reads and for writes, in microseconds.
percentile() {
    awk -v name="\"$2\"" 'index($0, name) { gsub(/[^0-9]/, "", $3); if ($3 + 0 > most) most = $3 + 0 } END { printf "%.0f", most / 1000 }' "$W/$1.json"
}
# mean NAME PERCENTILE: the same; of `alone` that of its two measurements.
mean() {
    [ "$1" = alone ] || { percentile "$1" "$2"; return; }
    awk -v a="$(percentile before "$2")" -v b="$(percentile after "$2")" 'BEGIN { printf "%.0f", (a + b) / 2 }'
}
ratio() { awk -v a="$(mean "$1" 99.000000)" -v b="$(mean alone 99.000000)" 'BEGIN { printf "%.2f", a / b }'; }
# measure NAME BYTES: the load while a deleted file goes back. Sets `took`, in seconds.
measure() {
    fill gone "$2"
    load "$1" 100000
    sleep 2
    rm "$W/plinth/gone"
    local began=$SECONDS
    # Its AUs are free a moment later.
    sleep 3
    wait_for_discards
    took=$((SECONDS - began))
    kill -INT "$load"; wait "$load" || true; load=""
    note "$1: $took s"
}
note "the load alone"
load before "$seconds"; wait "$load"; load=""
measure paced "$size"; paced=$took
load after "$seconds"; wait "$load"; load=""
sql "ALTER DISKGROUP data SET ATTRIBUTE 'discard.pace' = 'unpaced'"
measure unpaced $((size * 8)); unpaced=$took
sql "ALTER DISKGROUP data CHECK"

{
    echo "A file of $file is deleted in NORMAL redundancy, and one of eight times that unpaced; a discard takes $delay ms, and all other I/O of its disk waits; $(nproc) cores, Linux $(uname -r), $profile build."
    echo
    echo "| 8 KiB at random places, two programs | p99, µs | ratio | p99.9, µs | gone back after, s |"
    echo "| --- | ---: | ---: | ---: | ---: |"
    row() { echo "| $1 | $(mean "$2" 99.000000) | $(ratio "$2") | $(mean "$2" 99.900000) | $3 |"; }
    row "nothing is deleted" alone ""
    row "as by default" paced "$paced"
    row "\`discard.pace\` = \`unpaced\`" unpaced "$unpaced"
} >&3
