#!/bin/bash
# pgbench on ext4, on btrfs raid1 and on a Plinth group, in one run on the same loop devices over tmpfs.
#
#   bench/pgbench.sh [SECONDS=20] [ROUNDS=3] [SCALE=20] [CLIENTS=8]
#
# ext4 has one device, btrfs raid1 and Plinth NORMAL have two, so ext4 writes everything once and
# the others write it twice. Each round visits all of them, in turn, so that what the machine does
# meanwhile strikes all alike; the figures are medians over the rounds. Every visit has a PostgreSQL
# with the same settings, stopped while the others are measured. TPC-B is pgbench's default script,
# select-only its -S; shared_buffers is small, so that reads reach the file system.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
. scripts/common.sh
become_root "$0" "$@"
SECONDS_EACH=${1:-20} ROUNDS=${2:-3} SCALE=${3:-20} CLIENTS=${4:-8}

need fusermount3 fuse3 "to mount Plinth" initdb "$(pg_packages)" "the database" psql postgresql-client "to talk to it" \
    mkfs.btrfs btrfs-progs "the peer" mkfs.ext4 e2fsprogs "the peer" losetup mount "block devices over files"
database_user
build release

W=$(mktemp -d /tmp/plinth-bench.XXXXXX); chmod 755 "$W"
loops=()
clean_up() {
    trap - EXIT INT TERM
    for system in ext4 btrfs plinth; do
        [ -e "$W/$system/pg/postmaster.pid" ] && as_db pg_ctl -D "$W/$system/pg" -m immediate stop >/dev/null 2>&1
    done
    PLINTH_DIR=$W/run timeout 30 "$PLINTH" shutdown >/dev/null 2>&1
    for system in ext4 btrfs plinth; do mountpoint -q "$W/$system" && { umount "$W/$system" || umount -l "$W/$system"; }; done
    for device in "${loops[@]}"; do losetup -d "$device"; done
    mountpoint -q "$W/tmpfs" && { umount "$W/tmpfs" || umount -l "$W/tmpfs"; }
    rm -rf --one-file-system "$W"
} 2>/dev/null
trap clean_up EXIT; trap 'exit 130' INT; trap 'exit 143' TERM

# 3 GiB hold scale 20 with its WAL several times over; the files are sparse.
mkdir "$W"/{tmpfs,ext4,btrfs,plinth,run,disks,socket}; chown "$DBUSER" "$W/socket"
mount -t tmpfs -o size=90% none "$W/tmpfs"
device() { truncate -s 3G "$W/tmpfs/$1"; losetup --find --show --direct-io=on "$W/tmpfs/$1" 2>/dev/null || losetup --find --show "$W/tmpfs/$1"; }
for name in ext4 btrfs0 btrfs1 plinth0 plinth1; do d=$(device $name); loops+=("$d"); declare "D_$name=$d"; done
mkfs.ext4 -q "$D_ext4"; mount "$D_ext4" "$W/ext4"
mkfs.btrfs -q -d raid1 -m raid1 "$D_btrfs0" "$D_btrfs1"; btrfs device scan >/dev/null; mount "$D_btrfs0" "$W/btrfs"
ln -s "$D_plinth0" "$W/disks/0"; ln -s "$D_plinth1" "$W/disks/1"
export PLINTH_DIR=$W/run
setsid "$PLINTH" serve --dir "$W/run" --diskstring "$W/disks/*" </dev/null >"$W/serve.log" 2>&1 &
for _ in $(seq 100); do "$PLINTH" sql -c 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.1; done
"$PLINTH" sql -c "CREATE DISKGROUP data NORMAL REDUNDANCY DISK '$W/disks/0', '$W/disks/1'"
"$PLINTH" mount DATA "$W/plinth"

export PGHOST=$W/socket PGUSER=postgres PGDATABASE=postgres
start() { as_db pg_ctl -D "$W/$1/pg" -l "$W/socket/$1.log" -w start >/dev/null; }
stop() { as_db pg_ctl -D "$W/$1/pg" -m fast -w stop >/dev/null; }
for system in ext4 btrfs plinth; do
    say "filling $system"
    install -d -o "$DBUSER" -m 700 "$W/$system/pg"
    as_db initdb -D "$W/$system/pg" -A trust -U postgres --data-checksums --no-locale >/dev/null
    cat >>"$W/$system/pg/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$W/socket'
shared_buffers = 32MB
max_wal_size = 512MB
autovacuum = off
END
    start $system; as_db pgbench -iq -s "$SCALE" >/dev/null 2>&1; stop $system
done

for round in $(seq "$ROUNDS"); do
    for system in ext4 btrfs plinth; do
        start $system
        as_db psql -qc 'CHECKPOINT'
        for load in tpcb select; do
            flag=(); [ $load = select ] && flag=(-S)
            as_db pgbench -n "${flag[@]}" -c "$CLIENTS" -j 2 -T "$SECONDS_EACH" >"$W/socket/out" 2>&1 || { cat "$W/socket/out"; fail "pgbench failed on $system"; }
            sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$W/socket/out" >>"$W/socket/$system.$load"
            note "round $round, $system, $load: $(tail -1 "$W/socket/$system.$load") tps"
        done
        stop $system
    done
done

median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
say "Medians of $ROUNDS rounds of $SECONDS_EACH s, $CLIENTS clients, scale $SCALE, $(nproc) cores, loop devices on tmpfs, Linux $(uname -r), $("$(pg_bin)/postgres" --version | cut -d' ' -f1-3)"
echo
echo "| | TPC-B, tps | of ext4 | of btrfs raid1 | select-only, tps | of ext4 | of btrfs raid1 |"
echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
for system in ext4 btrfs plinth; do
    case $system in ext4) label="ext4, one device" ;; btrfs) label="btrfs raid1, two devices" ;; plinth) label="Plinth NORMAL, two devices" ;; esac
    line="| $label"
    for load in tpcb select; do
        own=$(median "$W/socket/$system.$load")
        line="$line | $(printf '%.0f' "$own") | $(ratio "$own" "$(median "$W/socket/ext4.$load")") | $(ratio "$own" "$(median "$W/socket/btrfs.$load")")"
    done
    echo "$line |"
done
