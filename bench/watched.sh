#!/bin/bash
# The latency of PostgreSQL's transactions while the instance is watched: `/metrics` is asked once a second, and ten dashboards are open.
#
#   bench/watched.sh [-r RATE=200] [-n DASHBOARDS=10] [-t SECONDS=20] [-R ROUNDS=5] [-s SCALE=20] [-b BASE=/dev/shm] [-p PROFILE=release] [-x PROGRAM]
#
# A group in NORMAL redundancy on two loop devices over files in BASE, mounted, with a database on it. pgbench's TPC-B arrives at RATE a
# second, whether or not earlier transactions have ended, and each counts from when it was due. By turns, ROUNDS times each:
#
#   alone    nothing is watched
#   watched  a scrape a second, and DASHBOARDS streams of the state, which are read as a browser reads them
#
# Browsers and scrapers run on other hosts. Here they are programs that take processor time only when nothing else wants it (SCHED_IDLE).
# The percentiles are those of all transactions of a kind.
#
# PROGRAM is a `plinth` that is built already. The table goes to standard output as Markdown, everything else to standard error.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
. scripts/common.sh
rate=200 dashboards=10 seconds=20 rounds=5 scale=20 base=/dev/shm profile=release program=""
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }
while getopts r:n:t:R:s:b:p:x:h option; do
    case $option in
        r) rate=$OPTARG ;; n) dashboards=$OPTARG ;; t) seconds=$OPTARG ;; R) rounds=$OPTARG ;; s) scale=$OPTARG ;;
        b) base=$OPTARG ;; p) profile=$OPTARG ;; x) program=$OPTARG ;; h) usage; exit ;; *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1)); [ $# = 0 ] || { usage >&2; exit 2; }
become_root "$0" -r "$rate" -n "$dashboards" -t "$seconds" -R "$rounds" -s "$scale" -b "$base" -p "$profile" ${program:+-x "$program"}
PATH=$PATH:/usr/sbin:/sbin
exec 3>&1 1>&2

need fusermount3 fuse3 "to mount Plinth" initdb "$(pg_packages)" "the database" psql postgresql-client "to talk to it" \
    losetup mount "block devices over files" curl curl "to watch" chrt util-linux "to watch from aside"
database_user
if [ -n "$program" ]; then PLINTH=$(realpath "$program"); else build "$profile"; fi

W=$(mktemp -d /tmp/plinth-bench.XXXXXX); chmod 755 "$W"
images=$(mktemp -d "$base/plinth-bench.XXXXXX")
loops=() watchers=()
clean_up() {
    trap - EXIT INT TERM
    set +e
    cd /
    for watcher in "${watchers[@]}"; do kill "$watcher"; done
    [ -e "$W/plinth/pg/postmaster.pid" ] && as_db pg_ctl -D "$W/plinth/pg" -m immediate stop
    PLINTH_DIR=$W/run timeout 60 "$PLINTH" shutdown --force
    mountpoint -q "$W/plinth" && { umount "$W/plinth" || umount -l "$W/plinth"; }
    for device in "${loops[@]}"; do losetup -d "$device"; done
    rm -rf --one-file-system "$images" "$W"
} >/dev/null 2>&1
trap clean_up EXIT; trap 'exit 130' INT; trap 'exit 143' TERM

mkdir "$W"/{plinth,run,disks,socket,out}; chown "$DBUSER" "$W/socket" "$W/out"
for number in 0 1; do
    truncate -s 3G "$images/$number"
    device=$(losetup --find --show "$images/$number")
    loops+=("$device")
    ln -s "$device" "$W/disks/$number"
done
export PLINTH_DIR=$W/run
setsid "$PLINTH" serve --dir "$W/run" --diskstring "$W/disks/*" --http 127.0.0.1:0 </dev/null >"$W/serve.log" 2>&1 3>&- &
for _ in $(seq 100); do "$PLINTH" sql -c 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.1; done
"$PLINTH" sql -c "CREATE DISKGROUP data NORMAL REDUNDANCY DISK '$W/disks/0', '$W/disks/1'" >/dev/null || { cat "$W/serve.log"; fail "the disk group was not made"; }
"$PLINTH" mount DATA "$W/plinth" 3>&-
url=http://$(grep -rhoE 'answers HTTP on [0-9.:]+' "$W/run" | head -1 | cut -d' ' -f4)
curl -sf "$url/api/state" >/dev/null || { cat "$W/serve.log"; fail "the dashboard does not answer at $url"; }

export PGHOST=$W/socket PGUSER=postgres PGDATABASE=postgres
install -d -o "$DBUSER" -m 700 "$W/plinth/pg"
as_db initdb -D "$W/plinth/pg" -A trust -U postgres --data-checksums --no-locale >/dev/null
cat >>"$W/plinth/pg/postgresql.conf" <<END
listen_addresses = ''
unix_socket_directories = '$W/socket'
autovacuum = off
checkpoint_timeout = 1h
max_wal_size = 8GB
END
as_db pg_ctl -D "$W/plinth/pg" -l "$W/socket/log" -w start >/dev/null 3>&- || { tail "$W/socket/log"; fail "PostgreSQL does not start"; }
as_db pgbench -iq -s "$scale" >"$W/out/log" 2>&1 || { cat "$W/out/log"; fail "pgbench -i failed"; }

# Ends with the script. The processes that it has started are in watchers.
watch_it() {
    local number
    # One program and one connection, as Prometheus has them. A program that is started each second disturbs pgbench, whatever it asks.
    chrt --idle 0 curl -s --rate 60/m -o "$W/out/scrape.#1" "$url/metrics?number=[1-1000000]" >/dev/null 3>&- &
    watchers+=($!)
    for number in $(seq "$dashboards"); do
        chrt --idle 0 curl -sN "$url/api/events" >"$W/out/stream.$number" 3>&- &
        watchers+=($!)
    done
}
stop_watching() {
    local watcher
    for watcher in "${watchers[@]}"; do kill "$watcher"; wait "$watcher" || true; done 2>/dev/null
    watchers=()
    [ "$(grep -l '^plinth_engine_up{.*} 1' "$W"/out/scrape.* | wc -l)" -ge $((seconds / 2)) ] || fail "/metrics was not answered every second or two"
    for number in $(seq "$dashboards"); do
        [ "$(grep -c '^data: ' "$W/out/stream.$number")" -ge $((seconds / 2)) ] || fail "dashboard $number has not had a state every second or two"
    done
}
run() {
    as_db psql -qc 'CHECKPOINT'
    rm -f "$W"/out/pgbench.* "$W"/out/scrape.*
    as_db pgbench -n -c 4 -j 2 -R "$rate" -T "$seconds" -l --log-prefix="$W/out/pgbench" >"$W/out/log" 2>&1 || { cat "$W/out/log"; fail "pgbench failed"; }
    # The third field: the time from when it was due, in microseconds.
    cut -d' ' -f3 "$W"/out/pgbench.* | tee -a "$W/out/$1" | sort -n \
        | awk -v kind="$1" -v round="$2" '{ v[NR] = $1 } END { printf "    round %s, %s: p99 %d us of %d\n", round, kind, v[int(NR * 0.99)], NR }'
}
run warm 0
for round in $(seq "$rounds"); do
    # Another one first in every second round.
    kinds=(alone watched); [ $((round % 2)) = 0 ] && kinds=(watched alone)
    for kind in "${kinds[@]}"; do
        if [ "$kind" = watched ]; then watch_it; fi
        run "$kind" "$round"
        if [ "$kind" = watched ]; then stop_watching; fi
    done
done
percentiles() { sort -n "$W/out/$1" | awk '{ v[NR] = $1 } END { print NR, v[int(NR * 0.5)], v[int(NR * 0.95)], v[int(NR * 0.99)] }'; }
read -r many half often rare <<<"$(percentiles alone)"
read -r many_watched half_watched often_watched rare_watched <<<"$(percentiles watched)"
ratio() { awk -v a="$2" -v b="$1" 'BEGIN { printf "%.2f", a / b }'; }
{
    echo "pgbench's TPC-B at $rate transactions a second, scale $scale; $rounds rounds of $seconds s each; $(nproc) cores, Linux $(uname -r)."
    echo
    echo "| | transactions | p50, µs | p95, µs | p99, µs |"
    echo "| --- | ---: | ---: | ---: | ---: |"
    echo "| alone | $many | $half | $often | $rare |"
    echo "| a scrape a second, $dashboards dashboards | $many_watched | $half_watched | $often_watched | $rare_watched |"
    echo "| ratio | | $(ratio "$half" "$half_watched") | $(ratio "$often" "$often_watched") | $(ratio "$rare" "$rare_watched") |"
} >&3
