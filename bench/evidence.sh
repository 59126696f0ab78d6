#!/bin/bash
# `plinth load run` against fio and against the kernel's own counts, on a loop device in memory.
#
#   bench/evidence.sh [-r ROUNDS=5] [-t SECONDS=10] [-c SECONDS=60] [-m SECONDS=0] [-s SIZE=1G] [-b BASE=/dev/shm] [-x PROGRAM]
#
#   1. Cost: processor time of the process for each I/O, for 4 KiB random reads, 32 in flight, as fast as it goes, and for 5,000 a
#      second; of plinth, of fio with io_uring (plain and with registered memory and files), of fio with libaio.
#   2. Counts: requests and sectors of a mixed open load of -c SECONDS, against /sys/block/*/stat.
#   3. Latency: 8 KiB random reads, one in flight, of plinth and fio by turns, -t SECONDS each; the medians of ROUNDS; and the same at
#      1,000 a second in an open loop against fio's rate_iops, at most one in flight: with more, either program sets a timer
#      while it waits, which costs a virtual machine 12 us of latency.
#   4. Memory: the resident set of a run of -m SECONDS with five classes, from /proc, after a tenth, a half and all of that time.
#
# -r 0 leaves parts 1 and 3 out, -c 0 part 2, -m 0 part 4.
#
# PROGRAM is a built `plinth`, with its argument `load` (or the example `load` of plinth-evidence, without). The tables go to standard
# output as Markdown, everything else to standard error.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
. scripts/common.sh
rounds=5 seconds=10 counted=60 memory=0 size=1G base=/dev/shm program=""
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }
while getopts r:t:c:m:s:b:x:h option; do
    case $option in
        r) rounds=$OPTARG ;; t) seconds=$OPTARG ;; c) counted=$OPTARG ;; m) memory=$OPTARG ;; s) size=$OPTARG ;; b) base=$OPTARG ;; x) program=$OPTARG ;;
        h) usage; exit ;; *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1)); [ $# = 0 ] || { usage >&2; exit 2; }
become_root "$0" -r "$rounds" -t "$seconds" -c "$counted" -m "$memory" -s "$size" -b "$base" ${program:+-x "$program"}
PATH=$PATH:/usr/sbin:/sbin
exec 3>&1 1>&2
need fio fio "to compare with"
if [ -z "$program" ]; then build release; program="$PLINTH load"; fi
read -ra LOAD <<<"$program"

W=$(mktemp -d "$base/plinth-bench.XXXXXX")
device="" runner=""
clean_up() {
    trap - EXIT INT TERM
    [ -n "$runner" ] && kill "$runner" 2>/dev/null && wait "$runner" || true
    [ -n "$device" ] && losetup -d "$device"
    rm -rf --one-file-system "$W"
}
trap clean_up EXIT; trap 'exit 130' INT; trap 'exit 143' TERM
truncate -s "$size" "$W/disk"
device=$(losetup -f --show "$W/disk")
note "filling $device"
fio --name=fill --filename="$device" --rw=write --bs=1M --direct=1 --refill_buffers >/dev/null

# class NAME RATE SIZE ...: a model.
model() { while [ $# -ge 3 ]; do printf '[%s]\nrate = %s\nsize = %s\n' "$1" "$2" "$3"; shift 3; done; }
model random-read 5000 4096 >"$W/read4k.toml"
model random-read 1000 8192 >"$W/read8k.toml"
model random-read 1000 8192 large-read 40 262144 random-write 500 8192 large-write 20 262144 log-write 100 8192 >"$W/mixed.toml"

# timed FILE COMMAND...: the user and system seconds of a command.
timed() { local TIMEFORMAT='%U %S' file=$1; shift; { time "$@" >"$W/out" 2>"$W/err"; } 2>"$file" || { cat "$W/err" >&2; fail "$*"; }; }
fio_job() { fio --name=job --filename="$device" --direct=1 --time_based --runtime="$seconds" --output-format=json "$@"; }
# field FILE REGEX: the first number behind it.
ours() { grep -oE '"requests":[0-9]+' "$1" | head -1 | cut -d: -f2; }
our_mean() { grep -oE '"sum":[0-9.e+]+' "$1" | head -1 | cut -d: -f2 | awk -v n="$(ours "$1")" '{ printf "%.2f", $1 / n / 1000 }'; }
fios() { awk '/"total_ios"/ { gsub(/[^0-9]/, "", $3); print $3; exit }' "$1"; }
# The mean of "lat_ns": the third latency of fio's reads, submission and completion.
fio_mean() { awk '/"lat_ns"/ { seen = 1 } seen && /"mean"/ { gsub(/[^0-9.]/, "", $3); printf "%.2f", $3 / 1000; exit }' "$1"; }
# The medians of the requests.
our_median() {
    grep -oE '"counts":\[[][0-9,]+\]' "$1" | head -1 | grep -oE '[0-9]+,[0-9]+' | tr ',' ' ' | awk '
        { at[NR] = $1; n[NR] = $2; all += $2 } END { for (i = 1; i <= NR; i++) { below += n[i]; if (below >= all / 2) { printf "%.2f", at[i] / 1000; exit } } }'
}
fio_median() { awk '/"lat_ns"/ { seen = 1 } seen && /"50.000000"/ { gsub(/[^0-9]/, "", $3); printf "%.2f", $3 / 1000; exit }' "$1"; }
microseconds() { awk -v n="$2" '{ printf "%.2f", ($1 + $2) * 1e6 / n }' "$1"; }
median() { sort -n | awk '{ v[NR] = $1 } END { printf "%.2f", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# cost NAME COMMAND...: adds microseconds of processor time for each I/O to the file of that name.
cost() {
    local name=$1; shift
    timed "$W/time" "$@"
    local count; case $name in plinth*) count=$(ours "$W/out") ;; *) count=$(fios "$W/out") ;; esac
    microseconds "$W/time" "$count" >>"$W/$name.cost"; echo >>"$W/$name.cost"
    note "$name: $(tail -1 "$W/$name.cost") us for each of $count"
}
for _ in $(seq "$rounds"); do
    cost plinth-full "${LOAD[@]}" run "$W/read4k.toml" "$device" --closed --unpaced --depth 32 --seconds "$seconds" --json
    cost uring-full fio_job --rw=randread --bs=4k --ioengine=io_uring --iodepth=32
    cost fixed-full fio_job --rw=randread --bs=4k --ioengine=io_uring --iodepth=32 --fixedbufs --registerfiles
    cost libaio-full fio_job --rw=randread --bs=4k --ioengine=libaio --iodepth=32
    cost plinth-paced "${LOAD[@]}" run "$W/read4k.toml" "$device" --seconds "$seconds" --json
    cost uring-paced fio_job --rw=randread --bs=4k --ioengine=io_uring --iodepth=32 --rate_iops=5000
    cost fixed-paced fio_job --rw=randread --bs=4k --ioengine=io_uring --iodepth=32 --rate_iops=5000 --fixedbufs --registerfiles
    cost libaio-paced fio_job --rw=randread --bs=4k --ioengine=libaio --iodepth=32 --rate_iops=5000
done

stat() { cat "/sys/block/${device#/dev/}/stat"; }
if [ "$counted" -gt 0 ]; then
    note "counts over $counted s"
    before=$(stat)
    "${LOAD[@]}" run "$W/mixed.toml" "$device" --seconds "$counted" --force-overwrite --json >"$W/counts"
    after=$(stat)
    # Requests and bytes of our classes, reads first.
    counts=$(grep -oE '"class":"[a-z-]+","requests":[0-9]+,"bytes":[0-9]+' "$W/counts" | tr -d '"' | tr ',:' '  ' | awk '
        $2 ~ /read/ { r += $4; rb += $6; next } { w += $4; wb += $6 } END { print r, rb / 512, w, wb / 512 }')
    kernels=$(awk -v a="$before" -v b="$after" 'BEGIN { split(a, x, " "); split(b, y, " "); print y[1] - x[1], y[3] - x[3], y[5] - x[5], y[7] - x[7] }')
fi

# latency WHO HOW: adds the mean and the median of $W/out to their files.
latency() { for what in mean median; do { "$1_$what" "$W/out"; echo; } >>"$W/$1.$2.$what"; done; }
for _ in $(seq "$rounds"); do
    "${LOAD[@]}" run "$W/read8k.toml" "$device" --closed --unpaced --depth 1 --seconds "$seconds" --json >"$W/out" 2>/dev/null
    latency our closed
    fio_job --rw=randread --bs=8k --ioengine=io_uring --iodepth=1 --fixedbufs --registerfiles --lat_percentiles=1 >"$W/out"
    latency fio closed
    "${LOAD[@]}" run "$W/read8k.toml" "$device" --depth 1 --seconds "$seconds" --json >"$W/out" 2>/dev/null
    latency our open
    fio_job --rw=randread --bs=8k --ioengine=io_uring --iodepth=1 --rate_iops=1000 --fixedbufs --registerfiles --lat_percentiles=1 >"$W/out"
    latency fio open
    note "latency, us: $(tail -qn 1 "$W"/{our,fio}.{closed,open}.* | tr '\n' ' ')"
done

# resident PID: its resident set in KiB.
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$1/status"; }
if [ "$memory" -gt 0 ]; then
    note "memory over $memory s"
    "${LOAD[@]}" run "$W/mixed.toml" "$device" --seconds "$memory" --force-overwrite --verify --output "$W/long.json" >/dev/null 2>"$W/err" &
    runner=$!
    begun=$SECONDS
    for part in 10 50 98; do
        sleep $((memory * part / 100 - (SECONDS - begun)))
        echo "$((memory * part / 100)) $(resident "$runner")" >>"$W/memory"
        note "resident set after $(tail -1 "$W/memory" | tr ' ' ':') KiB"
    done
    wait "$runner" || { cat "$W/err"; fail "the run over $memory s"; }
    runner=""
fi

cost_table() {
    echo "| processor time of the process for an I/O of 4 KiB, µs | 32 in flight | 5,000 a second |"
    echo "| --- | ---: | ---: |"
    for name in "plinth:plinth load run" "uring:fio, io_uring" "fixed:fio, io_uring, registered memory and files" "libaio:fio, libaio"; do
        echo "| ${name#*:} | $(median <"$W/${name%%:*}-full.cost") | $(median <"$W/${name%%:*}-paced.cost") |"
    done
    echo
}
count_table() {
    echo "| counts over $counted s | reads | sectors read | writes | sectors written |"
    echo "| --- | ---: | ---: | ---: | ---: |"
    echo "$counts" | awk '{ printf "| plinth load run | %d | %d | %d | %d |\n", $1, $2, $3, $4 }'
    echo "$kernels" | awk '{ printf "| the kernel | %d | %d | %d | %d |\n", $1, $2, $3, $4 }'
    echo
}
latency_table() {
    echo "| latency of 8 KiB random reads, µs | plinth | fio | ratio |"
    echo "| --- | ---: | ---: | ---: |"
    for how in "closed:one in flight" "open:1,000 a second"; do
        for what in mean median; do
            a=$(median <"$W/our.${how%%:*}.$what") b=$(median <"$W/fio.${how%%:*}.$what")
            echo "| ${how#*:}, $what | $a | $b | $(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.3f", a / b }') |"
        done
    done
    echo
}
memory_table() {
    echo "| a run of $memory s, five classes, verified: after | resident set, KiB |"
    echo "| ---: | ---: |"
    awk '{ printf "| %d s | %d |\n", $1, $2 }' "$W/memory"
    echo
    echo "The results of that run: $(wc -c <"$W/long.json") bytes."
}
{
    echo "A loop device of $size in memory; $(nproc) cores, Linux $(uname -r), $(fio --version); medians of $rounds rounds of $seconds s."
    echo
    if [ "$rounds" -gt 0 ]; then cost_table; fi
    if [ "$counted" -gt 0 ]; then count_table; fi
    if [ "$rounds" -gt 0 ]; then latency_table; fi
    if [ "$memory" -gt 0 ]; then memory_table; fi
} >&3
