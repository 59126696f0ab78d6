#!/bin/bash
# Plinth's data path beside its peers, in one run on equal loop devices: raw devices, ext4, btrfs raid1, qemu-storage-daemon
# (NBD of one image, NBD of a quorum of two, FUSE), nbdkit, and Plinth through FUSE, NBD and as a library.
#
#   bench/data-path.sh [-t SECONDS=2] [-r ROUNDS=3] [-s MIB=512] [-c CASE,CASE...] [-d DIR] [-o FILE.svg] [-p]
#
#   -t   seconds of each subject in each case and round
#   -s   the working set of each subject: written once before and read back; nothing else is read or written
#   -c   cases, KIND:BYTES:DEPTH or KIND:BYTES:DEPTH:JOBS; a KIND is randread, randwrite, read, write, sync or dsync.
#        Those with jobs, and dsync, are for what a program opens as a file: the raw device, ext4, btrfs, FUSE
#   -d   disks are files on the file system of DIR instead of tmpfs
#   -o   a picture of the ratios
#   -p   bench/pgbench.sh as well, with as many rounds and four times the seconds, for the comparisons that are about databases
#
# Each disk is a loop device with direct I/O. Each round of a case visits all subjects, and each begins with another one;
# figures are medians. fio does the same to all, with direct I/O: by io_uring to files and devices, as a client of its own to
# NBD. The library is driven by plinth-io, which does the same to raw devices by turns. A log write (sync) is a write and then
# fdatasync, for NBD a flush; or (dsync) a write to a file that was opened with O_DSYNC. A case of writes ends with a flush
# that counts, so that no subject ends with bytes that are still in memory.
# Where one I/O follows the other, NORMAL is measured once more with attribute io_poll_time = 50us.
# CPU is that of fio and of the server; threads of the kernel (loop, btrfs) are not counted.
#
# docs/performance.md says more. The tables go to standard output as Markdown, everything else to standard error.
set -euo pipefail
from=$PWD
cd "$(dirname "$(realpath "$0")")/.."
repo=$PWD
. scripts/common.sh
seconds=2 rounds=3 size=512 base=tmpfs picture='' databases=''
cases=randread:8192:1,randread:8192:32,randwrite:8192:1,randwrite:8192:32,read:1048576:4,write:1048576:4,sync:2048:1,sync:5120:1,dsync:2048:1,randread:8192:1:8
usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }
while getopts t:r:s:c:d:o:ph option; do
    case $option in
        t) seconds=$OPTARG ;; r) rounds=$OPTARG ;; s) size=$OPTARG ;; c) cases=$OPTARG ;; p) databases=-p ;;
        d) base=$(cd "$from" && realpath -- "$OPTARG") ;; o) picture=$(cd "$from" && realpath -m -- "$OPTARG") ;;
        h) usage; exit ;; *) usage >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1)); [ $# = 0 ] || { usage >&2; exit 2; }
[[ "$seconds $rounds $size" =~ ^[1-9][0-9]*\ [1-9][0-9]*\ [1-9][0-9]*$ ]] || { usage >&2; exit 2; }
IFS=, read -ra cases <<<"$cases"
for case in "${cases[@]}"; do
    [[ $case =~ ^(randread|randwrite|read|write|d?sync):[1-9][0-9]*:[1-9][0-9]*(:[1-9][0-9]*)?$ ]] || { echo "$case is no case" >&2; usage >&2; exit 2; }
done
become_root "$0" -t "$seconds" -r "$rounds" -s "$size" -c "$(IFS=,; echo "${cases[*]}")" \
    ${picture:+-o "$picture"} $databases $([ "$base" = tmpfs ] || printf '%s' "-d $base")
PATH=$PATH:/usr/sbin:/sbin
exec 3>&1 1>&2

need fusermount3 fuse3 "to mount Plinth" fio fio "the load" qemu-storage-daemon qemu-system-common "the peer" nbdkit nbdkit "the peer" \
    mkfs.btrfs btrfs-progs "the peer" mkfs.ext4 e2fsprogs "the peer" losetup mount "block devices over files"
# Without perf system calls are not counted; everything else is measured.
has perf || (need perf linux-perf "to count system calls") || note "going on without perf: system calls will not be counted"
fio --enghelp | grep -qw nbd || fail "this fio has no client for NBD (ioengine nbd); Debian's has"
build release
cargo build --locked --release -p plinth-bench || fail "the build failed"
BIN=${PLINTH%/plinth}

W=$(mktemp -d /tmp/plinth-bench.XXXXXX); chmod 755 "$W"
images=$W/tmpfs
loops=() mounts=()
# Running processes: servers by name, pipes to and from those that read commands from standard input, and the load.
declare -A server=() to=() come=()
load='' counter=''
# Removes everything except the results.
stop_all() {
    trap - EXIT INT TERM
    set +e
    cd /
    [ -n "$counter" ] && kill -INT "$counter"
    [ -n "$load" ] && kill "$load" && wait "$load"
    # Programs that read commands end when their input is closed.
    for descriptor in "${to[@]}" "${come[@]}"; do exec {descriptor}>&-; done
    for pid in "${server[@]}"; do kill "$pid"; done
    for pid in "${server[@]}"; do wait "$pid"; done
    [ -e "$W/run" ] && PLINTH_DIR=$W/run timeout 60 "$PLINTH" shutdown --force
    for mount in "${mounts[@]}"; do mountpoint -q "$mount" && { umount "$mount" || umount -l "$mount"; }; done
    for device in "${loops[@]}"; do losetup -d "$device"; done
    [ "$images" = "$W/tmpfs" ] || rm -rf --one-file-system "$images"
    mountpoint -q "$W/tmpfs" && { umount "$W/tmpfs" || umount -l "$W/tmpfs"; }
    rm -rf --one-file-system "$W/run"
    loops=() mounts=() server=() to=() come=() load=''
} >/dev/null 2>&1
clean_up() { stop_all; rm -rf --one-file-system "$W"; }
trap_all() { trap clean_up EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; }
trap_all

# 16 devices, and btrfs, which never overwrites, may need twice as much; nbdkit has a copy in the page cache.
room=$((size * 20 + 1024))
if [ "$base" = tmpfs ]; then
    available=$(awk '/^MemAvailable/ { printf "%d", $2 / 1024 * 0.9 }' /proc/meminfo)
else
    available=$(df -m --output=avail "$base" | tail -1)
fi
[ "$room" -le "$available" ] || fail "$room MiB are needed and $available are there: a smaller working set is -s $(((available - 1024) / 20 > 0 ? (available - 1024) / 20 : 0))"

say "Disks"
mkdir "$W"/{tmpfs,ext4,btrfs,external,normal,run,disks,out}
if [ "$base" = tmpfs ]; then mount -t tmpfs -o size=90% none "$images"; else images=$(mktemp -d "$base/plinth-bench.XXXXXX"); fi
# Sparse and larger than the working set, which is all that is ever written.
new_device() {
    truncate -s $((size * 3 + 1024))M "$images/$1"
    device=$(losetup --find --show --direct-io=on "$images/$1")
    loops+=("$device")
    [ "$(cat "/sys/block/${device#/dev/}/loop/dio")" = 1 ] || fail "$device does not do direct I/O there; on tmpfs Linux 6.6 or newer does"
}
# ready NAME SOCKET: until a server listens, or has ended.
ready() {
    for _ in $(seq 100); do [ -S "$2" ] && return; kill -0 "${server[$1]}" 2>/dev/null || break; sleep 0.1; done
    fail "$1 does not listen: $(cat "$W/out/$1.log")"
}

# How fio reaches each subject.
declare -A reach=()
# As a file or device, and as a client of NBD.
file() { reach[$1]="--ioengine=io_uring --direct=1 --filename=$2"; }
nbd() { reach[$1]="--ioengine=nbd --uri=$2"; }

new_device raw; raw=$device; file raw "$raw"

# No initialisation is left for the background.
new_device ext4; mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$device"; mount "$device" "$W/ext4"; mounts+=("$W/ext4")
file ext4 "$W/ext4/file"

new_device btrfs0; first=$device; new_device btrfs1
mkfs.btrfs -q -d raid1 -m raid1 "$first" "$device" >/dev/null; btrfs device scan >/dev/null; mount "$first" "$W/btrfs"; mounts+=("$W/btrfs")
file btrfs "$W/btrfs/file"

# qemu NAME OPTION...: a storage daemon, which does all in its main loop: as of 7.2 it dies of NBD in an iothread when a
# client leaves.
qemu() {
    local name=$1; shift
    qemu-storage-daemon "$@" </dev/null >"$W/out/$name.log" 2>&1 3>&- &
    server[$name]=$!
}
image() { echo "driver=host_device,filename=$2,node-name=$1,cache.direct=on,aio=io_uring"; }
new_device qemu
qemu qemu-nbd --blockdev "$(image disk "$device")" --nbd-server "addr.type=unix,addr.path=$W/qemu.sock" \
    --export type=nbd,id=export,node-name=disk,name=disk,writable=on
ready qemu-nbd "$W/qemu.sock"; nbd qemu-nbd "nbd+unix:///disk?socket=$W/qemu.sock"
# A read asks one child (fifo); the other pattern reads all and compares, which would halve it. A write goes to both and waits
# for both; the threshold is how many must have succeeded, and with 1 it survives the loss of one, as NORMAL does.
new_device quorum0; first=$device; new_device quorum1
qemu quorum-nbd --blockdev "$(image one "$first")" --blockdev "$(image two "$device")" \
    --blockdev driver=quorum,node-name=disk,children.0=one,children.1=two,vote-threshold=1,read-pattern=fifo \
    --nbd-server "addr.type=unix,addr.path=$W/quorum.sock" --export type=nbd,id=export,node-name=disk,name=disk,writable=on
ready quorum-nbd "$W/quorum.sock"; nbd quorum-nbd "nbd+unix:///disk?socket=$W/quorum.sock"
new_device fuse; touch "$W/image"
qemu qemu-fuse --blockdev "$(image disk "$device")" --export "type=fuse,id=export,node-name=disk,mountpoint=$W/image,writable=on"
mounts+=("$W/image")
for _ in $(seq 100); do mountpoint -q "$W/image" && break; sleep 0.1; done
mountpoint -q "$W/image" || fail "qemu's FUSE export is not there: $(cat "$W/out/qemu-fuse.log")"
file qemu-fuse "$W/image"

# It has no direct I/O: reads come from the page cache, and so do writes until the flush at the end.
new_device nbdkit
nbdkit -f -U "$W/nbdkit.sock" file "file=$device" </dev/null >"$W/out/nbdkit.log" 2>&1 3>&- &
server[nbdkit]=$!
ready nbdkit "$W/nbdkit.sock"; nbd nbdkit "nbd+unix:///?socket=$W/nbdkit.sock"

for name in external0 normal0 normal1; do new_device $name; ln -s "$device" "$W/disks/$name"; done
export PLINTH_DIR=$W/run
setsid "$PLINTH" serve --dir "$W/run" --diskstring "$W/disks/*" </dev/null >"$W/serve.log" 2>&1 3>&- &
for _ in $(seq 100); do "$PLINTH" sql -c 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.1; done
for name in external normal; do
    "$PLINTH" sql -c "CREATE DISKGROUP $name $name REDUNDANCY DISK '$W/disks/$name*'" >/dev/null || { cat "$W/serve.log"; fail "the disk group was not made"; }
    "$PLINTH" mount "${name^^}" "$W/$name"; mounts+=("$W/$name")
    file $name-fuse "$W/$name/file"
done
# The process that serves a subject, if one does.
pid_of() {
    case $1 in
        external-*) cat "$W/run/engine.EXTERNAL.pid" ;;
        normal-* | polling-*) cat "$W/run/engine.NORMAL.pid" ;;
        *) echo "${server[$1]:-}" ;;
    esac
}

# fio_does ARGUMENT...: one job; its result is in out/fio, as one line of fields.
fio_does() {
    fio --name=load --output="$W/out/fio" --output-format=terse --terse-version=3 "$@" </dev/null 2>"$W/out/fio.err" 3>&- &
    load=$!
    wait "$load" || { cat "$W/out/fio" "$W/out/fio.err"; fail "fio failed"; }
    load=''
}

say "Writing ${size} MiB each, and reading them back"
fill=(--rw=write --bs=1M --iodepth=4 "--size=${size}M" --verify=crc32c --verify_fatal=1 --verify_state_save=0 --end_fsync=1)
subjects=(raw ext4 btrfs qemu-nbd quorum-nbd qemu-fuse nbdkit external-fuse normal-fuse)
for subject in "${subjects[@]}"; do
    gently=(); [ $subject = qemu-fuse ] && gently=(--bs=64k --iodepth=1)
    fio_does ${reach[$subject]} "${fill[@]}" --do_verify=1 "${gently[@]}"
done
# The same files, exported over NBD.
for name in external normal; do
    nbd $name-nbd "$("$PLINTH" nbd "+${name^^}/file" --name file --socket "$W/$name.sock" | grep -o 'nbd+unix:.*')"
    subjects+=("$name-nbd")
    fio_does ${reach[$name-nbd]} "${fill[@]}" --verify_only=1
done
for door in fuse nbd; do reach[polling-$door]=${reach[normal-$door]}; done
looks() { "$PLINTH" sql -c "ALTER DISKGROUP normal SET ATTRIBUTE 'io_poll_time' = '$1'" >/dev/null || fail "io_poll_time cannot be $1"; }
# library NAME DEVICE...: plinth-io, which reads commands from standard input; it fills its own devices.
library() {
    local name=$1 ready; shift
    mkfifo "$W/to.$name" "$W/from.$name"
    "$BIN/plinth-io" "$@" -t "$seconds" -s "$size" -c - <"$W/to.$name" >"$W/from.$name" 2>"$W/out/$name" 3>&- &
    server[library-$name]=$!
    exec {descriptor}>"$W/to.$name"; to[$name]=$descriptor
    exec {descriptor}<"$W/from.$name"; come[$name]=$descriptor
    read -r ready <&"${come[$name]}" || fail "plinth-io: $(cat "$W/out/$name")"
}
devices=()
for number in 0 1 2 3 4 5; do new_device "library$number"; devices+=("$device"); done
library one "${devices[@]:0:2}"
library two "${devices[@]:2}"
subjects+=(library-one library-two)

lines=$W/lines
line() { local IFS=$'\t'; echo "$*" >>"$lines"; }
ticks() { [ -z "$1" ] && echo 0 || sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'; }
per_second=$(getconf CLK_TCK)

# fio_case SUBJECT CASE SECONDS ROUND: the load of a case. All subjects get the same offsets in the same round.
fio_case() {
    local kind block depth jobs arguments
    IFS=: read -r kind block depth jobs <<<"$2"
    arguments=(--bs="$block" --iodepth="$depth" --numjobs="${jobs:-1}" --group_reporting --size="${size}M" --time_based --runtime="$3"
        --norandommap --randseed="$4" --gtod_reduce=1)
    case $kind in
        *read) arguments+=(--rw="$kind") ;;
        *write) arguments+=(--rw="$kind" --end_fsync=1) ;;
        dsync) arguments+=(--rw=write --sync=dsync) ;;
        # fio's client of NBD has one flush, which it calls fsync.
        sync) arguments+=(--rw=write); [[ ${reach[$1]} == *=nbd* ]] && arguments+=(--fsync=1) || arguments+=(--fdatasync=1) ;;
    esac
    # A raw device gets whole sectors only, as from a database.
    [ "$1" = raw ] && arguments+=(--bs=$(((block + sector - 1) / sector * sector)))
    fio_does ${reach[$1]} "${arguments[@]}"
}
sector=$(blockdev --getss "$raw")

# From fio's fields (terse, version 3): KiB and ms of reads, then of writes; percent of CPU, user and system. Rate and latency
# follow from the number of I/Os: with N in flight each takes N times as long as the rate says.
figures() {
    awk -F ';' -v block="$1" -v depth="$2" -v jobs="${3:-1}" -v ticks="$4" -v hertz="$per_second" '{
        kib = $6 + $47; ms = $6 > 0 ? $9 : $50; count = kib * 1024 / block
        if (count < 1 || ms < 1) exit 1
        rate = count / ms * 1000
        own = ($88 + $89) / 100 * ms / 1000 * jobs
        printf "%.1f %.2f %.2f", rate, (own + ticks / hertz) * 1e6 / count, jobs * depth / rate * 1e6
    }' "$W/out/fio"
}

measure() {
    local subject=$1 case=$2 round=$3 kind block depth jobs pid before rate cpu latency name what whats
    IFS=: read -r kind block depth jobs <<<"$case"
    case $subject in
        library-*)
            name=${subject#library-}
            echo "$case" >&"${to[$name]}"
            whats=(raw-$name external); [ "$name" = two ] && whats=(raw-two normal)
            # The same reads again without comparing checksums; then all of them in a program that uses the bytes.
            [[ $name == two && $kind == randread ]] && {
                echo "unchecked $case" >&"${to[$name]}"; echo "used $case" >&"${to[$name]}"
                whats+=(unchecked raw-used normal-used unchecked-used)
            }
            for what in "${whats[@]}"; do
                read -r _ rate cpu latency <&"${come[$name]}" || fail "plinth-io: $(cat "$W/out/$name")"
                line "$case" "$what" "$round" "$rate" "$cpu" "$latency"
                note "$case, round $round, $what: $rate per second, $cpu us of CPU, $latency us"
            done ;;
        *)
            [[ $subject == polling-* ]] && looks 50us
            pid=$(pid_of "$subject"); before=$(ticks "$pid")
            fio_case "$subject" "$case" "$seconds" "$round"
            [[ $subject == polling-* ]] && looks none
            # A raw device may have had larger blocks.
            [ "$subject" = raw ] && block=$(((block + sector - 1) / sector * sector))
            what=$(figures "$block" "$depth" "$jobs" $(($(ticks "$pid") - before))) || fail "fio did nothing: $(cat "$W/out/fio")"
            read -r rate cpu latency <<<"$what"
            line "$case" "$subject" "$round" "$rate" "$cpu" "$latency"
            note "$case, round $round, $subject: $rate per second, $cpu us of CPU, $latency us" ;;
    esac
}

for case in "${cases[@]}"; do
    say "$case"
    visited=("${subjects[@]}")
    [[ $case =~ :.*:.*: ]] && visited=(raw ext4 qemu-fuse external-fuse normal-fuse)
    [[ $case =~ ^[a-z]*:[0-9]*:1$ ]] && visited+=(polling-fuse polling-nbd)
    [[ $case == dsync:* ]] && visited=(raw ext4 btrfs qemu-fuse external-fuse normal-fuse)
    # qemu's FUSE export (7.2) mixes up writes that are in flight together, so it gets them one at a time.
    [[ $case =~ ^(randwrite|write|d?sync):[0-9]*:1$ || $case =~ read ]] || { kept=(); for subject in "${visited[@]}"; do [ "$subject" = qemu-fuse ] || kept+=("$subject"); done; visited=("${kept[@]}"); }
    for round in $(seq "$rounds"); do
        for subject in "${visited[@]}"; do measure "$subject" "$case" "$round"; done
        visited=("${visited[@]:1}" "${visited[0]}")
    done
done

# Counts the whole load, from before it begins until it has ended, including threads that it starts.
count_from() { perf stat -x , -e raw_syscalls:sys_enter -p "$1" -o "$W/out/perf" >/dev/null 2>&1 & counter=$!; sleep 1; }
# counted SUBJECT IOS
counted() {
    kill -INT "$counter"; wait "$counter" || true; counter=''
    line "syscalls:$case" "$1" 1 "$(awk -F , -v ios="$2" '/sys_enter/ { printf "%.3f", $1 / ios }' "$W/out/perf")" - -
}
uncounted=''
case=randread:8192:32
say "System calls, $case"
if has perf && perf stat -x , -e raw_syscalls:sys_enter -- true 2>&1 | grep -q '^[0-9]'; then
    for subject in nbdkit qemu-nbd external-nbd normal-nbd; do
        count_from "$(pid_of "$subject")"
        fio_case "$subject" "$case" "$seconds" 0
        counted "$subject" "$(awk -F ';' '{ print $6 * 1024 / 8192 }' "$W/out/fio")"
    done
    for name in one two; do
        own=external; [ "$name" = two ] && own=normal
        count_from "${server[library-$name]}"
        echo "engine $case" >&"${to[$name]}"
        read -r _ rate _ <&"${come[$name]}" || fail "plinth-io: $(cat "$W/out/$name")"
        counted "$own" "$(awk -v rate="$rate" -v s="$seconds" 'BEGIN { print rate * s }')"
    done
else
    uncounted="System calls were not counted: there is no perf here that may count them."
    note "$uncounted"
fi

peers="qemu-storage-daemon $(qemu-storage-daemon --version | sed -n '1s/.*version \([^ ]*\).*/\1/p'), nbdkit $(nbdkit --version | cut -d' ' -f2), $(fio --version)"
where="files on $(stat -f -c %T "$images")"; [ "$base" = tmpfs ] && where="tmpfs"
stop_all
set -e; cd "$repo"; trap_all
if [ -n "$databases" ]; then
    say "Databases"
    bench/pgbench.sh -t $((seconds * 4)) -r "$rounds" -o "$W/lines.pgbench" >"$W/out/pgbench" 3>&- &
    load=$!
    wait "$load" || fail "bench/pgbench.sh failed; what was measured before it: $(echo; "$BIN/plinth-table" <"$lines")"
    load=''
    cat "$W/lines.pgbench" >>"$lines"
fi
{
    echo "Medians of $rounds rounds of $seconds s each, $size MiB for each subject; $(nproc) cores, loop devices over $where, Linux $(uname -r), $peers."
    echo
    "$BIN/plinth-table" ${picture:+-o "$picture"} <"$lines"
    [ -z "$uncounted" ] || printf '\n%s\n' "$uncounted"
} >&3
