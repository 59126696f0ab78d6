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
need fusermount3 fuse3 "to mount Plinth"
[ -d "$base" ] || fail "$base is no directory"
if [ -n "$program" ]; then PLINTH=$program; else build "$profile"; fi

W=$(mktemp -d "$base/plinth-bench.XXXXXX"); chmod 755 "$W"
export PLINTH_DIR=$W/run
clean_up() {
    trap - EXIT INT TERM
    set +e
    cd /
    timeout 60 "$PLINTH" shutdown
    mountpoint -q "$W/plinth" && { umount "$W/plinth" || umount -l "$W/plinth"; }
    rm -rf --one-file-system "$W"
} >/dev/null 2>&1
trap clean_up EXIT; trap 'exit 130' INT; trap 'exit 143' TERM

mkdir -p "$W"/{plinth,run,disks}
for disk in near far; do truncate -s $(($(numfmt --from=iec "$size") * 2 + (1 << 30))) "$W/disks/$disk"; done
setsid "$PLINTH" serve --dir "$W/run" --diskstring "$W/disks/*" </dev/null >"$W/serve.log" 2>&1 3>&- &
for _ in $(seq 100); do "$PLINTH" sql -c 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.1; done
sql() { "$PLINTH" sql -c "$1" >"$W/sql.log" 2>&1 || { cat "$W/sql.log" "$W/serve.log"; fail "$1"; }; }
sql "CREATE DISKGROUP whatif NORMAL REDUNDANCY FAILGROUP near DISK '$W/disks/near' FAILGROUP far DISK '$W/disks/far'"
sql "ALTER DISKGROUP whatif SET ATTRIBUTE 'what_if.delay.far' = '$delay'"
"$PLINTH" mount WHATIF "$W/plinth" 3>&-
printf '[random-read]\nrate = %s\nsize = 8192\n' "$reads" >"$W/reads.toml"
head -c "$(numfmt --from=iec "$size")" /dev/urandom >"$W/plinth/file"
sync "$W/plinth/file"

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
