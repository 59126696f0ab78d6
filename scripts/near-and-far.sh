# For benches: an instance with the group WHATIF in NORMAL redundancy, of the failure groups NEAR and FAR, mounted at $W/plinth.
# Sourced after common.sh, with `base`, `profile`, `program` set and standard output saved as descriptor 3.

# start_near_and_far SIZE: makes it, with room for SIZE. Everything goes away when the script ends.
start_near_and_far() {
    need fusermount3 fuse3 "to mount Plinth"
    [ -d "$base" ] || fail "$base is no directory"
    if [ -n "$program" ]; then PLINTH=$program; else build "$profile"; fi
    W=$(mktemp -d "$base/plinth-bench.XXXXXX"); chmod 755 "$W"
    export PLINTH_DIR=$W/run
    trap clean_up_near_and_far EXIT; trap 'exit 130' INT; trap 'exit 143' TERM
    mkdir -p "$W"/{plinth,run,disks}
    local disk
    for disk in near far; do truncate -s $(($(numfmt --from=iec "$1") * 2 + (1 << 30))) "$W/disks/$disk"; done
    setsid "$PLINTH" serve --dir "$W/run" --diskstring "$W/disks/*" </dev/null >"$W/serve.log" 2>&1 3>&- &
    for _ in $(seq 100); do "$PLINTH" sql -c 'SELECT 1' >/dev/null 2>&1 && break; sleep 0.1; done
    sql "CREATE DISKGROUP whatif NORMAL REDUNDANCY FAILGROUP near DISK '$W/disks/near' FAILGROUP far DISK '$W/disks/far'"
    "$PLINTH" mount WHATIF "$W/plinth" 3>&-
    head -c "$(numfmt --from=iec "$1")" /dev/urandom >"$W/plinth/file"
    sync "$W/plinth/file"
}

clean_up_near_and_far() {
    trap - EXIT INT TERM
    set +e
    cd /
    timeout 60 "$PLINTH" shutdown --force
    mountpoint -q "$W/plinth" && { umount "$W/plinth" || umount -l "$W/plinth"; }
    rm -rf --one-file-system "$W"
} >/dev/null 2>&1

sql() { "$PLINTH" sql -c "$1" >"$W/sql.log" 2>&1 || { cat "$W/sql.log" "$W/serve.log"; fail "$1"; }; }

# far_away DELAY: from now on FAR is that far away. By FORCE, as the group has files.
far_away() { sql "ALTER DISKGROUP whatif SET ATTRIBUTE 'what_if.delay.far' = '$1' FORCE"; }
