#!/bin/bash
# The cost of a rebalance: its speed on an idle group compared with a plain copy, and the latency of clients meanwhile.
#
#   bench/rebalance.sh [-f FILE=1500M] [-p POWER=64] [-l LATENCY=3ms] [-t SECONDS=20] [-d DEVICE=2G] [-r ROUNDS=7] [-b BASE=/var/tmp]
#
# Eight equal loop devices over files in BASE, with direct I/O; with `-b tmpfs` over memory, where every copy costs as much as the
# processors are busy with it. A group in NORMAL redundancy on four of them, each its own failure
# group, has one file of FILE bytes.
#
#   1. The group is idle. In one statement four other devices come and the four old ones go. Before it, dd copies as many
#      bytes from the same old devices to the same new ones, all four at once, with direct I/O in blocks of 1 MiB. There and
#      back, ROUNDS times: the median of what is measured in turns.
#   2. Two programs read and write 8 KiB at random places of the file, with direct I/O, each one request at a time: for a
#      while alone; then while the group moves back with that power; then while it moves again with LATENCY as its target.
#
# The tables go to standard output as Markdown, everything else to standard error.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
. scripts/common.sh
file=1500M power=64 latency=3ms seconds=20 size=2G rounds=7 base=/var/tmp
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }
while getopts f:p:l:t:d:r:b:h option; do
    case $option in
        f) file=$OPTARG ;; p) power=$OPTARG ;; l) latency=$OPTARG ;; t) seconds=$OPTARG ;; d) size=$OPTARG ;; r) rounds=$OPTARG ;; b) base=$OPTARG ;;
        h) usage; exit ;; *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1)); [ $# = 0 ] || { usage >&2; exit 2; }
become_root "$0" -f "$file" -p "$power" -l "$latency" -t "$seconds" -d "$size" -r "$rounds" -b "$base"
PATH=$PATH:/usr/sbin:/sbin
exec 3>&1 1>&2

need fusermount3 fuse3 "to mount Plinth" fio fio "the load" losetup mount "block devices over files"
build release

[ "$base" = tmpfs ] || [ -d "$base" ] || fail "$base is no directory"
W=$(mktemp -d /tmp/plinth-bench.XXXXXX); chmod 755 "$W"
images=$W/tmpfs
loops=()
clean_up() {
    trap - EXIT INT TERM
    set +e
    cd /
    [ -n "${load:-}" ] && kill "$load" && wait "$load"
    PLINTH_DIR=$W/run timeout 60 "$PLINTH" shutdown
    mountpoint -q "$W/plinth" && { umount "$W/plinth" || umount -l "$W/plinth"; }
    for device in "${loops[@]}"; do losetup -d "$device"; done
    [ "$base" = tmpfs ] || rm -rf --one-file-system "$images"
    mountpoint -q "$W/tmpfs" && { umount "$W/tmpfs" || umount -l "$W/tmpfs"; }
    rm -rf --one-file-system "$W"
} >/dev/null 2>&1
trap clean_up EXIT; trap 'exit 130' INT; trap 'exit 143' TERM

mkdir "$W"/{tmpfs,plinth,run,disks}
if [ "$base" = tmpfs ]; then mount -t tmpfs -o size=90% none "$images"; else images=$(mktemp -d "$base/plinth-bench.XXXXXX"); fi
for number in {0..7}; do
    truncate -s "$size" "$images/$number"
    device=$(losetup --find --show --direct-io=on "$images/$number")
    loops+=("$device")
    ln -s "$device" "$W/disks/$number"
done
# The first write to unused blocks costs a file system, and the host below it, more than a copy. That is not compared here, so all
# blocks are written before.
note "writing the disks"
for number in {0..7}; do dd if=/dev/zero of="${loops[$number]}" bs=1M oflag=direct status=none 2>/dev/null || true; done
export PLINTH_DIR=$W/run
setsid "$PLINTH" serve --dir "$W/run" --diskstring "$W/disks/*" </dev/null >"$W/serve.log" 2>&1 3>&- &
for _ in $(seq 100); do "$PLINTH" sql -c 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.1; done
sql() { "$PLINTH" sql -c "$1" >"$W/sql.log" 2>&1 || { cat "$W/sql.log" "$W/serve.log"; fail "$1"; }; }
# The last word of the answer, which is one number.
number() { "$PLINTH" sql -c "$1" | grep -oE '^ *[0-9]+ *$' | tail -1 | tr -d ' '; }
seconds_since() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }'; }
mib_per_second() { awk -v bytes="$1" -v seconds="$2" 'BEGIN { printf "%.0f", bytes / 1048576 / seconds }'; }

groups() { for number in "$@"; do printf "FAILGROUP f%s DISK '%s' " "$number" "$W/disks/$number"; done; }
sql "CREATE DISKGROUP data NORMAL REDUNDANCY $(groups 0 1 2 3)"
"$PLINTH" mount DATA "$W/plinth"
note "filling"
fio --name=fill --filename="$W/plinth/file" --size="$file" --rw=write --bs=1M --refill_buffers --end_fsync=1 >"$W/fio.log" || { cat "$W/fio.log"; fail "fio"; }

# move FROM TO: the disks of one half give way to those of the other. Sets `took` and `moved`.
move() {
    local began old="" number
    for number in $1; do old+="${old:+, }f$number"; done
    # shellcheck disable=SC2086
    began=$(date +%s.%N)
    sql "ALTER DISKGROUP data ADD $(groups $2) DROP DISKS IN FAILGROUP $old REBALANCE POWER $power WAIT"
    took=$(seconds_since "$began")
    moved=$(number "SELECT bytes FROM v\$asm_operation WHERE pass = 'REBALANCE'")
}

held=$(number "SELECT sum(total_mb - free_mb) FROM v\$asm_disk WHERE group_number = 1")
each=$((held / 4))

# copy FROM TO: as many bytes as the group has, from the same devices to the same, all four at once. Sets `copied`, in seconds. The first
# 8 MiB are left as they are, so that a copy cannot be mistaken for the disk.
copy() {
    local began copies=() from to job
    read -ra from <<<"$1"; read -ra to <<<"$2"
    began=$(date +%s.%N)
    for job in 0 1 2 3; do
        dd if="${loops[${from[$job]}]}" of="${loops[${to[$job]}]}" bs=1M skip=8 seek=8 count="$each" iflag=direct oflag=direct conv=fsync status=none &
        copies+=($!)
    done
    for job in "${copies[@]}"; do wait "$job"; done
    copied=$(seconds_since "$began")
}
median() { printf '%s\n' "$@" | sort -g | sed -n "$((($# + 1) / 2))p"; }
plain=() idle=() ratio=()
from="0 1 2 3" to="4 5 6 7"
for round in $(seq "$rounds"); do
    copy "$from" "$to"
    move "$from" "$to"
    # Now everything from the old disks is on the new ones, including the catalog, which a rebalance does not count.
    plain+=("$(mib_per_second $((each * 4 * 1048576)) "$copied")")
    idle+=("$(mib_per_second $((each * 4 * 1048576)) "$took")")
    ratio+=("$(awk -v a="$copied" -v b="$took" 'BEGIN { printf "%.2f", a / b }')")
    note "round $round: dd $copied s, four disks for four others $took s"
    read -r from to < <(echo "$from" "$to" | awk '{ print $5 "_" $6 "_" $7 "_" $8, $1 "_" $2 "_" $3 "_" $4 }')
    from=${from//_/ } to=${to//_/ }
done

# load NAME SECONDS: the programs run for SECONDS. `p99 NAME` is their 99th percentile in microseconds.
load() {
    fio --name=load --filename="$W/plinth/file" --rw=randrw --bs=8k --direct=1 --ioengine=psync --numjobs=2 --time_based --runtime="$2" \
        --group_reporting --output-format=json --output="$W/$1.json" >/dev/null 2>&1 &
    load=$!
}
p99() {
    # The larger of the values for reads and for writes.
    awk '/"99.000000"/ { gsub(/[^0-9]/, "", $3); if ($3 + 0 > most) most = $3 + 0 } END { printf "%.0f", most / 1000 }' "$W/$1.json"
}
iops() { awk '/"iops" :/ { gsub(/,/, "", $3); sum += $3 } END { printf "%.0f", sum }' "$W/$1.json"; }
note "the load alone"
load alone "$seconds"; wait "$load"
measure() {
    load "$1" 100000
    sleep 1
    move "$2" "$3"
    kill -INT "$load"; wait "$load" || true; load=""
    note "$1: $((moved >> 20)) MiB in $took s"
}
measure free "$from" "$to"
free_speed=$(mib_per_second "$moved" "$took")
sql "ALTER DISKGROUP data SET ATTRIBUTE 'rebalance.latency_target' = '$latency'"
measure promised "$to" "$from"
promised_speed=$(mib_per_second "$moved" "$took")
sql "ALTER DISKGROUP data CHECK"

place=memory; [ "$base" = tmpfs ] || place="files ($(findmnt -nT "$base" -o FSTYPE))"
{
    echo "A file of $file in NORMAL redundancy; $(nproc) cores, loop devices of $size on $place, Linux $(uname -r), power $power."
    echo
    echo "| four disks to four others, idle, median of $rounds rounds | MiB/s | of dd |"
    echo "| --- | ---: | ---: |"
    echo "| dd, four at once, direct, 1 MiB | $(median "${plain[@]}") | 1.00 |"
    echo "| one statement | $(median "${idle[@]}") | $(median "${ratio[@]}") |"
    echo
    echo "| 8 KiB at random places, two programs | requests/s | p99, µs | moved, MiB/s |"
    echo "| --- | ---: | ---: | ---: |"
    echo "| nothing moves | $(iops alone) | $(p99 alone) | |"
    echo "| four disks to four others | $(iops free) | $(p99 free) | $free_speed |"
    echo "| the same, $latency promised | $(iops promised) | $(p99 promised) | $promised_speed |"
} >&3
