#!/bin/bash
# A million files: how fast they are created while views are queried, how long queries and mounts take, how much memory the
# engine needs, and whether all space is given back when they are removed.
#
#   bench/files.sh [-n FILES=1000000] [-s SMALL=100000] [-j CREATORS=8] [-q SESSIONS=4] [-r ROUNDS=3] [-f FILES_A_ROUND=20000]
#
# One NORMAL group on three loop devices over tmpfs. First files are made alone and with SESSIONS of psql that query the
# views without a pause, in turns, ROUNDS of each; then the group is filled to SMALL files and to FILES, and queried
# through psql at both; then it is mounted again after a dismount and after its engine was killed; at last all but
# 1 % of the files are removed. Query times are psql's \timing, medians of 5.
#
# The tables go to standard output as Markdown, everything else to standard error.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
. scripts/common.sh
files=1000000 small=100000 creators=8 sessions=4 rounds=3 each=20000
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }
while getopts n:s:j:q:r:f:h option; do
    case $option in
        n) files=$OPTARG ;; s) small=$OPTARG ;; j) creators=$OPTARG ;; q) sessions=$OPTARG ;; r) rounds=$OPTARG ;;
        f) each=$OPTARG ;; h) usage; exit ;; *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1)); [ $# = 0 ] || { usage >&2; exit 2; }
become_root "$0" -n "$files" -s "$small" -j "$creators" -q "$sessions" -r "$rounds" -f "$each"
PATH=$PATH:/usr/sbin:/sbin
exec 3>&1 1>&2

need fusermount3 fuse3 "to mount Plinth" psql postgresql-client "to ask it" losetup mount "block devices over files"
build release
cargo build --locked -q --release -p plinth-tests --bin plinth-files || fail "the build failed"
MAKER=${PLINTH%/plinth}/plinth-files

W=$(mktemp -d /tmp/plinth-bench.XXXXXX)
loops=() askers=()
clean_up() {
    trap - EXIT INT TERM
    set +e
    cd /
    for asker in "${askers[@]}"; do kill "$asker"; done
    PLINTH_DIR=$W/run timeout 60 "$PLINTH" shutdown --force
    mountpoint -q "$W/mnt" && { umount "$W/mnt" || umount -l "$W/mnt"; }
    for device in "${loops[@]}"; do losetup -d "$device"; done
    mountpoint -q "$W/tmpfs" && { umount "$W/tmpfs" || umount -l "$W/tmpfs"; }
    rm -rf --one-file-system "$W"
} >/dev/null 2>&1
trap clean_up EXIT; trap 'exit 130' INT; trap 'exit 143' TERM

mkdir "$W"/{tmpfs,mnt,run,disks}
mount -t tmpfs -o size=90% none "$W/tmpfs"
for number in 0 1 2; do
    truncate -s 4G "$W/tmpfs/$number"
    device=$(losetup --find --show --direct-io=on "$W/tmpfs/$number")
    loops+=("$device"); ln -s "$device" "$W/disks/$number"
done
export PLINTH_DIR=$W/run PGHOST=$W/run PGUSER=root PGDATABASE=plinth
setsid "$PLINTH" serve --dir "$W/run" --diskstring "$W/disks/*" </dev/null >"$W/serve.log" 2>&1 3>&- &
for _ in $(seq 100); do "$PLINTH" sql -c 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.1; done
"$PLINTH" sql -c "CREATE DISKGROUP data NORMAL REDUNDANCY DISK '$W/disks/*'" >/dev/null || { cat "$W/serve.log"; fail "the disk group was not made"; }
"$PLINTH" mount DATA "$W/mnt"

COUNT='SELECT group_number, type, COUNT(*) FROM v$asm_file GROUP BY group_number, type'
SPACE='SELECT type, SUM(bytes), SUM(space) FROM v$asm_file GROUP BY type'
PATHS="WITH RECURSIVE t(path, i, f, g) AS (
  SELECT '+' || d.name || '/' || a.name, a.reference_index, a.file_number, a.group_number
  FROM v\$asm_alias a JOIN v\$asm_diskgroup_stat d ON d.group_number = a.group_number WHERE MOD(a.parent_index, 16777216) = 0
  UNION ALL
  SELECT t.path || '/' || a.name, a.reference_index, a.file_number, a.group_number
  FROM t JOIN v\$asm_alias a ON a.parent_index = t.i)
SELECT t.path, f.type, f.bytes FROM t JOIN v\$asm_file f ON f.group_number = t.g AND f.file_number = t.f"
# ask SQL [TIMES]: the median of psql's own timing, in ms.
ask() {
    for _ in $(seq "${2:-5}"); do
        psql -XqAt -o /dev/null -c '\timing on' -c "$1" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
    done | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
engine() { cat "$W/run/engine.DATA.pid"; }
memory() { awk '/^VmHWM/ { printf "%.0f", $2 / 1024 }' "/proc/$(engine)/status"; }
now_uses() { awk '/^VmRSS/ { printf "%.0f", $2 / 1024 }' "/proc/$(engine)/status"; }
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
catalog() { psql -XqAt -c "SELECT SUM(total_mb - free_mb) FROM v\$asm_disk_stat"; }
since() { awk -v a="$1" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }'; }
row() { printf '| %s | %s | %s | %s | %s |\n' "$@" >&3; }

say "Files made alone, and beside $sessions sessions that query"
made=0
for round in $(seq "$rounds"); do
    for kind in alone asked; do
        if [ $kind = asked ]; then
            askers=()
            for _ in $(seq "$sessions"); do
                # One connection each; the next query starts when the last has ended.
                yes "$COUNT; $SPACE; SELECT COUNT(*) FROM v\$asm_alias; \\! echo >>$W/asked" 2>/dev/null | psql -XqAt -o /dev/null 2>/dev/null 3>&- &
                askers+=($!)
            done
        fi
        before=$(ticks "$(engine)")
        "$MAKER" make "$W/mnt/round$made" "$each" "$creators" >"$W/out"
        for asker in "${askers[@]}"; do kill "$asker"; wait "$asker" || true; done 2>/dev/null
        askers=()
        made=$((made + 1))
        cut -d' ' -f1 "$W/out" >>"$W/rate.$kind"
        note "round $round, $kind: $(cat "$W/out"); $(( ($(ticks "$(engine)") - before) * 10 )) ms of the engine's CPU"
        sed 's/.*p99.9 \([0-9.]*\),.*/\1/' "$W/out" >>"$W/tail.$kind"
    done
done
middle() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
{
    echo "$creators creators, $sessions sessions, $(nproc) cores, loop devices on tmpfs, Linux $(uname -r); medians of $rounds rounds of $each files."
    echo
    echo "| | files/s | p99.9 of one, ms |"
    echo "| --- | ---: | ---: |"
    for kind in alone asked; do echo "| $kind | $(middle "$W/rate.$kind") | $(middle "$W/tail.$kind") |"; done
    echo "| ratio | $(awk -v a="$(middle "$W/rate.asked")" -v b="$(middle "$W/rate.alone")" 'BEGIN { printf "%.2f", a / b }') | |"
    echo "rounds of three queries answered meanwhile: $(wc -l <"$W/asked")"
    echo
} >&3
for number in $(seq 0 $((made - 1))); do "$MAKER" remove "$W/mnt/round$number" "$each" "$creators" 0 >/dev/null; done
rm -rf "$W"/mnt/round*

echo "| files | count by type, ms | space by type, ms | path of every alias, ms | engine, MiB; used by the group, MiB |" >&3
echo "| --- | ---: | ---: | ---: | ---: |" >&3
tell() { row "$1" "$(ask "$COUNT")" "$(ask "$SPACE" 3)" "$(ask "$PATHS" 1)" "$(now_uses); $(catalog)"; }
tell "none"
say "Filling"
"$MAKER" make "$W/mnt/few" "$small" "$creators"
tell "$small"
"$MAKER" make "$W/mnt/many" $((files - small)) "$creators"
tell "$files"
note "most memory the engine had: $(memory) MiB"

say "Mounting"
"$PLINTH" umount "$W/mnt"
psql -Xq -c 'ALTER DISKGROUP data DISMOUNT'
began=$(date +%s.%N); psql -Xq -c 'ALTER DISKGROUP data MOUNT'; clean=$(since "$began")
"$PLINTH" mount DATA "$W/mnt"
"$MAKER" make "$W/mnt/more" 5000 "$creators" >/dev/null
pid=$(engine); kill -9 "$pid"
began=$(date +%s.%N)
until [ "$(engine 2>/dev/null)" != "$pid" ] && psql -XqAt -c "SELECT state FROM v\$asm_diskgroup_stat" 2>/dev/null | grep -q MOUNTED; do sleep 0.02; done
crash=$(since "$began")
note "mounted in $clean s; after a crash $crash s"

say "Removing"
for _ in $(seq 100); do mountpoint -q "$W/mnt" && [ -e "$W/mnt/many" ] && break; sleep 0.1; done
"$MAKER" remove "$W/mnt/many" $((files - small)) "$creators" $((files / 100))
"$MAKER" remove "$W/mnt/few" "$small" "$creators" 0
for _ in $(seq 120); do last=$(catalog); sleep 1; [ "$(catalog)" = "$last" ] && [ "$last" -lt 200 ] && break; done
tell "$((files / 100)) left"
printf '\nmount: %s s clean, %s s after a crash; most memory of the engine %s MiB\n' "$clean" "$crash" "$(memory)" >&3
