#!/bin/bash
# The cost of the first write to a region after a mount, compared with a write to the same place once its region is open: the engine
# as a library, NORMAL redundancy on two sparse loop devices.
#
#   bench/regions.sh [-s GIB=64] [-n DEPTH=32] [-r ROUNDS=3] [-d DIR]
#
#   -s   the file's size, and nearly that of each disk; 64 KiB of every 4 MiB are written
#   -n   writes of 8 KiB in flight at a time
#   -d   disks are sparse files on the file system of DIR instead of tmpfs
#
# bench/src/regions/main.rs says what is measured. The table goes to standard output as Markdown, everything else to standard error.
set -euo pipefail
from=$PWD
cd "$(dirname "$(realpath "$0")")/.."
. scripts/common.sh
size=64 depth=32 rounds=3 base=''
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }
while getopts s:n:r:d:h option; do
    case $option in
        s) size=$OPTARG ;; n) depth=$OPTARG ;; r) rounds=$OPTARG ;;
        d) base=$(cd "$from" && realpath -- "$OPTARG") ;;
        h) usage; exit ;; *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1)); [ $# = 0 ] || { usage >&2; exit 2; }
[[ "$size $depth $rounds" =~ ^[1-9][0-9]*\ [1-9][0-9]*\ [1-9][0-9]*$ ]] || { usage >&2; exit 2; }
become_root "$0" -s "$size" -n "$depth" -r "$rounds" ${base:+-d "$base"}
PATH=$PATH:/usr/sbin:/sbin
exec 3>&1 1>&2
need losetup mount "block devices over files"
build release
cargo build --locked --release -p plinth-bench || fail "the build failed"

W=$(mktemp -d /tmp/plinth-bench.XXXXXX); images=$W
loops=() program=''
clean_up() {
    trap - EXIT INT TERM
    set +e
    [ -n "$program" ] && kill "$program" && wait "$program"
    for device in "${loops[@]}"; do losetup -d "$device"; done
    [ "$images" = "$W" ] || rm -rf --one-file-system "$images"
    mountpoint -q "$W" && { umount "$W" || umount -l "$W"; }
    rm -rf --one-file-system "$W"
} >/dev/null 2>&1
trap clean_up EXIT; trap 'exit 130' INT; trap 'exit 143' TERM
if [ -z "$base" ]; then mount -t tmpfs -o size=90% none "$W"; else images=$(mktemp -d "$base/plinth-bench.XXXXXX"); fi
for number in 0 1; do
    truncate -s $((size + size / 16 + 2))G "$images/$number"
    loops+=("$(losetup --find --show --direct-io=on "$images/$number")")
done
"${PLINTH%/plinth}/plinth-regions" "${loops[@]}" -s "$size" -d "$depth" -r "$rounds" >&3 &
program=$!
wait "$program" || fail "the measurement failed"
program=''
