#!/bin/bash
# pgbench on ext4, on btrfs raid1 and on a Plinth group, in one run on equal loop devices over tmpfs.
#
#   bench/pgbench.sh [-t SECONDS=10] [-r ROUNDS=3] [-s SCALE=20] [-c CLIENTS=8] [-b SHARED_BUFFERS=128MB] [-d DEVICE=3G] [-o FILE]
#
# ext4 has one device, btrfs raid1 and Plinth NORMAL have two, so ext4 writes everything once and the others write it
# twice. All devices are made alike, of the same size and with direct I/O to their file. First come the rounds of
# select-only (pgbench -S), on databases just filled and vacuumed, so that it reads and does not tidy up what updates left
# behind; then the rounds of TPC-B, pgbench's default script. Each round visits all systems, each begins with another one,
# and while one is measured the PostgreSQLs of the others are stopped: disturbances of the machine affect all alike.
# The figures are medians over the rounds. PostgreSQL is as it ships (fsync on, full_page_writes on, wal_sync_method
# fdatasync), with page checksums and without autovacuum, which would run at another moment on each system. `-b 32MB`
# makes TPC-B harder on a file system: most transactions then evict a dirty page.
#
# The table goes to standard output as Markdown, everything else to standard error. With -o the rounds go to FILE as well, as
# lines for plinth-table.
set -euo pipefail
from=$PWD
cd "$(dirname "$(realpath "$0")")/.."
. scripts/common.sh
seconds=10 rounds=3 scale=20 clients=8 buffers=128MB size=3G lines=/dev/null
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }
while getopts t:r:s:c:b:d:o:h option; do
    case $option in
        t) seconds=$OPTARG ;; r) rounds=$OPTARG ;; s) scale=$OPTARG ;; c) clients=$OPTARG ;;
        b) buffers=$OPTARG ;; d) size=$OPTARG ;; o) lines=$(cd "$from" && realpath -m -- "$OPTARG") ;; h) usage; exit ;; *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1)); [ $# = 0 ] || { usage >&2; exit 2; }
become_root "$0" -t "$seconds" -r "$rounds" -s "$scale" -c "$clients" -b "$buffers" -d "$size" -o "$lines"
PATH=$PATH:/usr/sbin:/sbin
exec 3>&1 1>&2

need fusermount3 fuse3 "to mount Plinth" initdb "$(pg_packages)" "the database" psql postgresql-client "to talk to it" \
    mkfs.btrfs btrfs-progs "the peer" mkfs.ext4 e2fsprogs "the peer" losetup mount "block devices over files"
database_user
build release

W=$(mktemp -d /tmp/plinth-bench.XXXXXX); chmod 755 "$W"
systems=(ext4 btrfs plinth)
loops=()
clean_up() {
    trap - EXIT INT TERM
    set +e
    cd /
    for system in "${systems[@]}"; do
        [ -e "$W/$system/pg/postmaster.pid" ] && as_db pg_ctl -D "$W/$system/pg" -m immediate stop
    done
    PLINTH_DIR=$W/run timeout 30 "$PLINTH" shutdown
    for system in "${systems[@]}"; do mountpoint -q "$W/$system" && { umount "$W/$system" || umount -l "$W/$system"; }; done
    for device in "${loops[@]}"; do losetup -d "$device"; done
    mountpoint -q "$W/tmpfs" && { umount "$W/tmpfs" || umount -l "$W/tmpfs"; }
    rm -rf --one-file-system "$W"
} >/dev/null 2>&1
trap clean_up EXIT; trap 'exit 130' INT; trap 'exit 143' TERM

# The files are sparse. 3 GiB hold scale 20 with its WAL several times over.
mkdir "$W"/{tmpfs,ext4,btrfs,plinth,run,disks,socket,out}; chown "$DBUSER" "$W/socket"
mount -t tmpfs -o size=90% none "$W/tmpfs"
new_device() {
    truncate -s "$size" "$W/tmpfs/$1"
    device=$(losetup --find --show --direct-io=on "$W/tmpfs/$1")
    loops+=("$device")
    [ "$(cat "/sys/block/${device#/dev/}/loop/dio")" = 1 ] || fail "$device does not do direct I/O on tmpfs; Linux 6.6 or newer does"
}
new_device ext4; mkfs.ext4 -q "$device"; mount "$device" "$W/ext4"
new_device btrfs0; first=$device; new_device btrfs1
mkfs.btrfs -q -d raid1 -m raid1 "$first" "$device" >/dev/null; btrfs device scan >/dev/null; mount "$first" "$W/btrfs"
for number in 0 1; do new_device "plinth$number"; ln -s "$device" "$W/disks/$number"; done
export PLINTH_DIR=$W/run
setsid "$PLINTH" serve --dir "$W/run" --diskstring "$W/disks/*" </dev/null >"$W/serve.log" 2>&1 3>&- &
for _ in $(seq 100); do "$PLINTH" sql -c 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.1; done
"$PLINTH" sql -c "CREATE DISKGROUP data NORMAL REDUNDANCY DISK '$W/disks/0', '$W/disks/1'" >/dev/null || { cat "$W/serve.log"; fail "the disk group was not made"; }
"$PLINTH" mount DATA "$W/plinth"

export PGHOST=$W/socket PGUSER=postgres PGDATABASE=postgres
start() { as_db pg_ctl -D "$W/$1/pg" -l "$W/socket/$1.log" -w start >/dev/null 3>&- || { tail "$W/socket/$1.log"; fail "PostgreSQL does not start on $1"; }; }
stop() { as_db pg_ctl -D "$W/$1/pg" -m fast -w stop >/dev/null; }
for system in "${systems[@]}"; do
    install -d -o "$DBUSER" -m 700 "$W/$system/pg"
    as_db initdb -D "$W/$system/pg" -A trust -U postgres --data-checksums --no-locale >/dev/null
    cat >>"$W/$system/pg/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$W/socket'
shared_buffers = $buffers
autovacuum = off
END
    start "$system"
    began=$(date +%s.%N)
    as_db pgbench -iq -s "$scale" >"$W/out/log" 2>&1 || { cat "$W/out/log"; fail "pgbench -i failed on $system"; }
    note "filled $system in $(awk -v a="$began" -v b="$(date +%s.%N)" 'BEGIN { printf "%.1f", b - a }') s, with" \
        "$(as_db psql -Atqc "SELECT string_agg(name || ' ' || setting, ', ' ORDER BY name) FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'wal_sync_method', 'data_checksums')")"
    stop "$system"
done

for load in select tpcb; do
    flag=(); [ $load = select ] && flag=(-S)
    for round in $(seq "$rounds"); do
        for system in "${systems[@]}"; do
            start "$system"
            as_db psql -qc 'CHECKPOINT'
            as_db pgbench -n "${flag[@]}" -c "$clients" -j 2 -T "$seconds" >"$W/out/log" 2>&1 || { cat "$W/out/log"; fail "pgbench failed on $system"; }
            sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$W/out/log" >>"$W/out/$system.$load"
            printf '%s\t%s\t%s\t%s\t-\t-\n' "$load" "$system" "$round" "$(tail -1 "$W/out/$system.$load")" >>"$lines"
            note "$load, round $round, $system: $(tail -1 "$W/out/$system.$load") tps"
            stop "$system"
        done
        systems=("${systems[@]:1}" "${systems[0]}")
    done
done

median() { sort -n "$W/out/$1" | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }
{
    echo "Medians of $rounds rounds of $seconds s each, $clients clients, scale $scale, shared_buffers $buffers; $(nproc) cores, loop devices of $size on tmpfs, Linux $(uname -r), PostgreSQL $("$(pg_bin)/postgres" --version | cut -d' ' -f3)."
    echo
    echo "| | TPC-B, tps | of ext4 | of btrfs raid1 | select-only, tps | of ext4 | of btrfs raid1 |"
    echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for system in ext4 btrfs plinth; do
        case $system in ext4) label="ext4, one device" ;; btrfs) label="btrfs raid1, two devices" ;; plinth) label="Plinth NORMAL, two devices" ;; esac
        line="| $label"
        for load in tpcb select; do
            own=$(median "$system.$load")
            line="$line | $(printf '%.0f' "$own") | $(ratio "$own" "$(median "ext4.$load")") | $(ratio "$own" "$(median "btrfs.$load")")"
        done
        echo "$line |"
    done
} >&3
