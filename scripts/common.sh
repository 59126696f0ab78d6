# Functions that ./quickstart, ./test and bench/ share. To be sourced by bash.
#
#   say, note, fail     words for people
#   become_root         goes on as root, or says what is missing
#   need                installs what a tool comes in, if the tool is not there
#   dashboard           builds the page that is packed into the binary, if npm is there
#   build               builds the binary; $PLINTH is where it is
#   database_user       $DBUSER: the user that databases run as
#   fault_disk_*        disks that can be made to fail

if [ -t 1 ]; then BOLD=$'\e[1m' DIM=$'\e[2m' RED=$'\e[31m' GREEN=$'\e[32m' PLAIN=$'\e[0m'; else BOLD='' DIM='' RED='' GREEN='' PLAIN=''; fi

say() { printf '%s\n' "$BOLD==> $*$PLAIN"; }
note() { printf '    %s\n' "$*"; }
fail() { printf '%s\n' "$RED$*$PLAIN" >&2; exit 1; }

# become_root "$0" "$@": starts the script again under sudo unless it is root already.
become_root() {
    [ "$(id -u)" = 0 ] && return
    command -v sudo >/dev/null || fail "$1 mounts file systems and makes devices, which needs root. Run it as root, or install sudo."
    note "root is needed to mount and to make devices: going on with sudo"
    exec sudo --preserve-env=CARGO_TARGET_DIR,CARGO_HOME,RUSTUP_HOME,PLINTH_LONG,PLINTH_TEST_DIR,PLINTH_POSIX_TOOLS \
        env "PATH=$PATH" "HOME=$HOME" "$@"
}

# need TOOL PACKAGE WHY ...: three words for each tool. Installs the missing ones together.
need() {
    local packages=() tool package why
    while [ $# -ge 3 ]; do
        tool=$1 package=$2 why=$3; shift 3
        has "$tool" && continue
        note "$tool is missing: package $package, $why"
        packages+=("$package")
    done
    [ ${#packages[@]} = 0 ] && return
    command -v apt-get >/dev/null || fail "Please install what gives ${packages[*]} on your system; this script knows Debian and Ubuntu only."
    export DEBIAN_FRONTEND=noninteractive
    local log; log=$(mktemp)
    install_packages "${packages[@]}" >"$log" 2>&1 || { apt-get update >>"$log" 2>&1 && install_packages "${packages[@]}" >>"$log" 2>&1; } \
        || { tail -20 "$log" >&2; fail "apt-get could not install ${packages[*]}; its last words are above, all of them in $log"; }
    rm -f "$log"
    note "installed ${packages[*]}"
}

install_packages() {
    # PostgreSQL's package would start a cluster of its own, which is not wanted.
    if [ ! -e /etc/postgresql-common/createcluster.conf ] && [[ "$*" == *postgresql* ]]; then
        apt-get install -y -q --no-install-recommends postgresql-common || return
        sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf
    fi
    # Of prometheus only a tool is wanted: its service, which the package would start, stays away.
    if [[ "$*" == *prometheus* ]] && [ -d /etc/systemd/system ] && [ ! -e /etc/systemd/system/prometheus.service ]; then
        ln -s /dev/null /etc/systemd/system/prometheus.service
    fi
    apt-get install -y -q --no-install-recommends "$@"
}

has() {
    case $1 in
    # PostgreSQL's programs are not in the path on Debian.
    initdb | pgbench | pg_amcheck | pg_checksums) [ -x "$(pg_bin)/$1" ] ;;
    # Drivers have no programs.
    psycopg | psycopg2 | asyncpg | sqlalchemy) /usr/bin/python3 -c "import $1" 2>/dev/null ;;
    pgjdbc) [ -e /usr/share/java/postgresql.jar ] ;;
    # The pip of the Python that runs the tests, which need not be the first one in the path.
    pip) /usr/bin/python3 -m pip --version >/dev/null 2>&1 ;;
    *) PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null ;;
    esac
}

# node_postgres DIR: node and node-postgres, from Debian; into DIR by npm where node came from elsewhere.
node_postgres() {
    has node || need node nodejs "to run the test of node-postgres"
    [ -d /usr/share/nodejs/pg ] || [ -d "$1/node_modules/pg" ] && return
    if ! has npm; then
        note "node-postgres is missing: package node-pg, to test it"
        DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends node-pg >/dev/null && return
        fail "apt-get could not install node-pg; install it, or npm"
    fi
    note "node-postgres is missing: npm puts it into $1"
    mkdir -p "$1" && npm install --silent --no-audit --no-fund --prefix "$1" pg@8 >/dev/null || fail "npm could not install pg"
}

# postgres_js DIR: postgres.js, into DIR by npm: Debian has no package of it.
postgres_js() {
    [ -d "$1/node_modules/postgres" ] && return
    has npm || need npm npm "to fetch postgres.js"
    note "postgres.js is missing: npm puts it into $1"
    mkdir -p "$1" && npm install --silent --no-audit --no-fund --prefix "$1" postgres@3 >/dev/null || fail "npm could not install postgres"
}

# python_drivers DIR: pg8000, into DIR/python by pip: Debian's package is of 2016 and knows no SCRAM.
python_drivers() {
    local list=tests/drivers/python.txt
    cmp -s "$list" "$1/python/installed.txt" && return
    need pip python3-pip "to fetch pg8000"
    note "pg8000 is missing: pip puts it into $1/python"
    rm -rf "$1/python"
    PIP_ROOT_USER_ACTION=ignore /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --no-deps \
        --only-binary :all: --require-hashes --target "$1/python" --requirement "$list" \
        || fail "pip could not install pg8000; its words are above, and $list says which versions"
    cp "$list" "$1/python/installed.txt"
}

# go_drivers DIR: pgx, into DIR/go by go, with the versions of go.mod; and builds its test, so that it is ready.
go_drivers() {
    need go golang-go "to build the test of pgx"
    [ -d "$1/go" ] || note "pgx is missing: go puts it into $1/go"
    (cd tests/drivers/pgx && go_in "$1" build -o /dev/null .) \
        || fail "go could not build the test of pgx; its words are above. It needs go 1.19 or newer: $(go version)"
}

# go_in DIR: go with all of its files in DIR/go, and no other toolchain than the one that is installed.
go_in() {
    local dir=$1; shift
    env GOTOOLCHAIN=local CGO_ENABLED=0 GOFLAGS="-mod=readonly -modcacherw" GOPATH="$dir/go" GOMODCACHE="$dir/go/mod" \
        GOCACHE="$dir/go/cache" go "$@"
}

# Where the newest PostgreSQL's programs are.
pg_bin() {
    local dir; dir=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort -V | tail -1)
    if [ -n "$dir" ]; then echo "$dir"; else pg_config --bindir 2>/dev/null || echo /usr/bin; fi
}

pg_packages() {
    local version; version=$(apt-cache depends postgresql 2>/dev/null | sed -n 's/.*Depends: \(postgresql-[0-9]*\)$/\1/p' | head -1)
    echo "${version:-postgresql}"
}

# dashboard: builds the page in dashboard/dist, unless it is newer than its source. Without npm, or with a Node.js that is
# too old, the binary goes without: its page then says so.
dashboard() {
    local source; source=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/../dashboard
    [ -e "$source/dist/index.html" ] && [ -e "$source/node_modules/axe-core" ] && [ -z "$(find "$source" -newer "$source/dist/index.html" -type f \
        -not -path '*/node_modules/*' -not -path '*/dist/*' -print -quit)" ] && return
    has npm || { note "npm is missing: the program goes without the dashboard"; return 0; }
    local log; log=$(mktemp)
    (cd "$source" && npm ci --no-audit --no-fund && npm run build) >"$log" 2>&1 \
        || { tail -5 "$log" >&2; note "npm could not build the dashboard (it needs Node.js 20.19; here is $(node --version)): the program goes without it"; }
    rm -f "$log"
}

# build PROFILE: debug or release; sets PLINTH.
build() {
    dashboard
    command -v cargo >/dev/null || [ ! -e "$HOME/.cargo/env" ] || . "$HOME/.cargo/env"
    command -v cargo >/dev/null || {
        note "Rust is missing: installing it for $(id -un) with rustup"
        need curl curl "to fetch Rust"
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y -q --no-modify-path >/dev/null || true
        [ ! -e "$HOME/.cargo/env" ] || . "$HOME/.cargo/env"
    }
    command -v cargo >/dev/null || fail "Rust is missing. Install it from https://rustup.rs, then run this again."
    need cc gcc "for the C parts of SQLite and cryptography"
    local flag=(); [ "$1" = release ] && flag=(--release)
    # This package alone: built with the others, it would get the engine's hooks for tests.
    cargo build --locked -p plinth-server --bin plinth "${flag[@]}" || fail "the build failed"
    PLINTH=$(cargo metadata --format-version 1 --no-deps --offline | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/$1/plinth
    [ -x "$PLINTH" ] || fail "$PLINTH was not built"
}

# A user for databases: PostgreSQL refuses to run as root.
database_user() {
    DBUSER=postgres
    id "$DBUSER" >/dev/null 2>&1 && return
    DBUSER=plinthdb
    id "$DBUSER" >/dev/null 2>&1 || { useradd --system --no-create-home --shell /usr/sbin/nologin "$DBUSER"; note "made the system user $DBUSER, which databases will run as"; }
}

# Runs a command as the databases' user.
as_db() { runuser -u "$DBUSER" -- env "PATH=$(pg_bin):$PATH" "$@"; }

# fault_disk_start HOME NAME SIZE: a disk HOME/disks/NAME that fails while HOME/parts/NAME.fail exists.
# nbdkit serves the file and makes it fail, nbdfuse shows it as a file again.
fault_disk_start() {
    local parts=$1/parts disk=$1/disks/$2
    mkdir -p "$parts/$2.d"; truncate -s "$3" "$parts/$2.data"
    nbdkit -U "$parts/$2.sock" -P "$parts/$2.nbdkit.pid" --threads=16 --filter=error file "file=$parts/$2.data" \
        error=EIO error-rate=100% "error-file=$parts/$2.fail"
    setsid nbdfuse --pidfile "$parts/$2.nbdfuse.pid" "$parts/$2.d/disk" "nbd+unix:///?socket=$parts/$2.sock" </dev/null >/dev/null 2>&1 &
    for _ in $(seq 100); do [ -e "$parts/$2.nbdfuse.pid" ] && break; sleep 0.1; done
    [ -e "$parts/$2.d/disk" ] || fail "the fault disk $2 did not come up"
    ln -sfn "$parts/$2.d/disk" "$disk"
}

# fault_disks_stop HOME: all of them.
fault_disks_stop() {
    local mount pid
    for mount in "$1"/parts/*.d; do
        [ -d "$mount" ] || continue
        rm -f "${mount%.d}.fail"
        mountpoint -q "$mount" && { fusermount3 -u "$mount" 2>/dev/null || umount -l "$mount" || true; }
    done
    for pid in "$1"/parts/*.pid; do
        [ -e "$pid" ] && { kill "$(cat "$pid")" 2>/dev/null || true; rm -f "$pid"; }
    done
    return 0
}
