-- Views of what happens: counters, histograms, who uses a group, and where everything lies.
-- Loaded after `views.sql`; `live_stats.rs` fills the tables, of the views that a statement names.

CREATE TEMP TABLE live_disk_time (
    disk  INTEGER NOT NULL,
    class TEXT NOT NULL,    -- READ, WRITE, FLUSH, DISCARD
    below INTEGER NOT NULL, -- microseconds, a power of two
    count INTEGER NOT NULL,
    last  INTEGER           -- nanoseconds since 1970
);

CREATE TEMP TABLE live_file_time (
    file  INTEGER NOT NULL, -- 0: all others
    class TEXT NOT NULL,    -- SMALL READ, LARGE READ, SMALL WRITE, LARGE WRITE, SYNC
    below INTEGER NOT NULL,
    count INTEGER NOT NULL,
    last  INTEGER
);

CREATE TEMP TABLE live_file (
    number        INTEGER PRIMARY KEY, -- 0: all others
    small_reads   INTEGER NOT NULL,
    large_reads   INTEGER NOT NULL,
    small_writes  INTEGER NOT NULL,
    large_writes  INTEGER NOT NULL,
    syncs         INTEGER NOT NULL,
    bytes_read    INTEGER NOT NULL,
    bytes_written INTEGER NOT NULL,
    read_time     INTEGER NOT NULL, -- microseconds
    write_time    INTEGER NOT NULL,
    sync_time     INTEGER NOT NULL
);

CREATE TEMP TABLE live_disk_client (
    disk           INTEGER NOT NULL,
    client         TEXT NOT NULL,    -- FILES, CATALOG, RECORDS, CHECKSUMS, COPIES, CHECKS
    reads          INTEGER NOT NULL,
    read_errors    INTEGER NOT NULL,
    read_timeouts  INTEGER NOT NULL,
    read_time      INTEGER NOT NULL, -- microseconds
    bytes_read     INTEGER NOT NULL,
    writes         INTEGER NOT NULL,
    write_errors   INTEGER NOT NULL,
    write_timeouts INTEGER NOT NULL,
    write_time     INTEGER NOT NULL,
    bytes_written  INTEGER NOT NULL
);

CREATE TEMP TABLE live_read_policy (
    disk        INTEGER PRIMARY KEY,
    preferred   INTEGER NOT NULL, -- reads, by why they went there
    faster      INTEGER NOT NULL,
    equal       INTEGER NOT NULL,
    only        INTEGER NOT NULL,
    retry       INTEGER NOT NULL,
    exploration INTEGER NOT NULL,
    micro_16k   INTEGER,          -- what reads up to this length are expected to take
    micro_64k   INTEGER,
    micro_256k  INTEGER,
    micro_1m    INTEGER
);

CREATE TEMP TABLE live_trouble (
    disk   INTEGER NOT NULL,
    kind   TEXT NOT NULL,
    count  INTEGER NOT NULL,
    first  INTEGER NOT NULL, -- nanoseconds since 1970
    last   INTEGER NOT NULL,
    offset INTEGER,          -- bytes
    length INTEGER,
    text   TEXT NOT NULL
);

-- AUs that no file has and no file can get.
CREATE TEMP TABLE live_unit (
    disk   INTEGER NOT NULL,
    au     INTEGER NOT NULL,
    what   TEXT NOT NULL,    -- SYSTEM, CHECKSUMS, HEADER, CATALOG, LOG
    number INTEGER NOT NULL  -- which one of its kind
);

CREATE TEMP TABLE live_unit_count (
    disk  INTEGER PRIMARY KEY,
    count INTEGER NOT NULL
);

CREATE TEMP TABLE live_partner (
    disk    INTEGER NOT NULL,
    partner INTEGER NOT NULL,
    active  INTEGER NOT NULL
);

CREATE TEMP TABLE live_space (
    total      INTEGER NOT NULL, -- bytes
    free       INTEGER NOT NULL,
    catalog    INTEGER NOT NULL,
    files      INTEGER NOT NULL,
    pending    INTEGER NOT NULL,
    writable   INTEGER NOT NULL,
    safe       INTEGER NOT NULL,
    bound_by   TEXT,
    restorable INTEGER NOT NULL,
    unprot     INTEGER NOT NULL,
    mirror     INTEGER NOT NULL,
    high       INTEGER NOT NULL,
    remark     TEXT
);

CREATE TEMP TABLE live_client (
    instance    TEXT NOT NULL,
    database    TEXT,
    software    TEXT,
    kind        TEXT NOT NULL,
    pid         INTEGER,
    mount_point TEXT,
    open_files  INTEGER
);

CREATE TEMP VIEW v$asm_disk_histogram AS
SELECT
    g.number AS group_number,
    t.disk AS disk_number,
    t.class AS io_class,
    t.below AS wait_time_micro,
    t.count AS wait_count,
    CASE WHEN t.below < 1000 THEN t.below || iif(t.below = 1, ' microsecond', ' microseconds')
        WHEN t.below < 1000000 THEN (t.below / 1000) || iif(t.below / 1000 = 1, ' millisecond', ' milliseconds')
        WHEN t.below < 60000000 THEN (t.below / 1000000) || iif(t.below / 1000000 = 1, ' second', ' seconds')
        ELSE (t.below / 60000000) || iif(t.below / 60000000 = 1, ' minute', ' minutes') END AS wait_time_format,
    strftime('%Y-%m-%d %H:%M:%S', t.last / 1000000000, 'unixepoch') AS last_update_time,
    0 AS con_id
FROM temp.live_disk_time AS t, temp.live_group AS g;

CREATE TEMP VIEW v$asm_file_histogram AS
SELECT
    g.number AS group_number,
    t.file AS file_number,
    t.class AS io_class,
    t.below AS wait_time_micro,
    t.count AS wait_count,
    CASE WHEN t.below < 1000 THEN t.below || iif(t.below = 1, ' microsecond', ' microseconds')
        WHEN t.below < 1000000 THEN (t.below / 1000) || iif(t.below / 1000 = 1, ' millisecond', ' milliseconds')
        WHEN t.below < 60000000 THEN (t.below / 1000000) || iif(t.below / 1000000 = 1, ' second', ' seconds')
        ELSE (t.below / 60000000) || iif(t.below / 60000000 = 1, ' minute', ' minutes') END AS wait_time_format,
    strftime('%Y-%m-%d %H:%M:%S', t.last / 1000000000, 'unixepoch') AS last_update_time,
    0 AS con_id
FROM temp.live_file_time AS t, temp.live_group AS g;

-- All disks of a group together.
CREATE TEMP VIEW v$asm_diskgroup_histogram AS
SELECT
    h.group_number AS group_number,
    h.io_class AS io_class,
    h.wait_time_micro AS wait_time_micro,
    sum(h.wait_count) AS wait_count,
    h.wait_time_format AS wait_time_format,
    max(h.last_update_time) AS last_update_time,
    0 AS con_id
FROM temp.v$asm_disk_histogram AS h
GROUP BY h.io_class, h.wait_time_micro;

CREATE TEMP VIEW v$asm_file_iostat AS
SELECT
    g.number AS group_number,
    f.number AS file_number,
    f.small_reads AS small_reads,
    f.large_reads AS large_reads,
    f.small_writes AS small_writes,
    f.large_writes AS large_writes,
    f.syncs AS syncs,
    f.bytes_read AS bytes_read,
    f.bytes_written AS bytes_written,
    f.read_time / 1e6 AS read_time,
    f.write_time / 1e6 AS write_time,
    f.sync_time / 1e6 AS sync_time,
    0 AS con_id
FROM temp.live_file AS f, temp.live_group AS g;

-- One engine does all the I/O of a group: a row per disk, and what it was for.
CREATE TEMP VIEW v$asm_disk_iostat AS
SELECT
    'PLINTH' AS instname,
    d.client AS dbname,
    NULL AS clustername,
    g.number AS group_number,
    d.disk AS disk_number,
    l.failure_group AS failgroup,
    NULL AS site_name,
    d.reads AS reads,
    d.writes AS writes,
    d.read_errors AS read_errs,
    d.write_errors AS write_errs,
    d.read_timeouts AS read_timeout,
    d.write_timeouts AS write_timeout,
    d.read_time / 1e6 AS read_time,
    d.write_time / 1e6 AS write_time,
    d.bytes_read AS bytes_read,
    d.bytes_written AS bytes_written,
    0 AS hot_reads,
    0 AS hot_writes,
    0 AS hot_bytes_read,
    0 AS hot_bytes_written,
    d.reads AS cold_reads,
    d.writes AS cold_writes,
    d.bytes_read AS cold_bytes_read,
    d.bytes_written AS cold_bytes_written,
    0 AS con_id,
    d.client AS io_client
FROM temp.live_disk_client AS d JOIN temp.live_disk AS l ON l.number = d.disk, temp.live_group AS g;

-- Why reads of front ends went where they went, and what is expected of the next.
CREATE TEMP VIEW v$asm_read_policy AS
SELECT
    g.number AS group_number,
    p.disk AS disk_number,
    d.name AS name,
    d.failure_group AS failgroup,
    d.preferred AS preferred_read,
    p.preferred AS preferred_reads,
    p.faster AS faster_reads,
    p.equal AS equal_reads,
    p.only AS only_reads,
    p.retry AS retry_reads,
    p.exploration AS exploration_reads,
    p.micro_16k AS read_micro_16k,
    p.micro_64k AS read_micro_64k,
    p.micro_256k AS read_micro_256k,
    p.micro_1m AS read_micro_1m,
    0 AS con_id
FROM temp.live_read_policy AS p JOIN temp.live_disk AS d ON d.number = p.disk, temp.live_group AS g
WHERE d.quorum = 0;

CREATE TEMP VIEW v$asm_client AS
SELECT
    g.number AS group_number,
    c.instance AS instance_name,
    c.database AS db_name,
    NULL AS cluster_name,
    'CONNECTED' AS status,
    c.software AS software_version,
    NULL AS compatible_version,
    0 AS con_id,
    c.kind AS client_type,
    c.pid AS pid,
    c.mount_point AS mount_point,
    c.open_files AS open_files
FROM temp.live_client AS c, temp.live_group AS g;

-- The directories on which a group is mounted. Sizes are MiB of file data, as `statfs` has them.
CREATE TEMP VIEW v$asm_filesystem AS
SELECT
    c.mount_point AS fs_name,
    NULL AS available_time,
    4 AS block_size,
    'AVAILABLE' AS state,
    'FALSE' AS corrupt,
    1 AS num_vol,
    g.total / CASE g.redundancy WHEN 'EXTERN' THEN 1 WHEN 'NORMAL' THEN 2 ELSE 3 END / 1048576 AS total_size,
    s.writable / 1048576 AS total_free,
    0 AS total_snap_space_usage,
    0 AS con_id,
    g.number AS group_number
FROM temp.live_client AS c, temp.live_space AS s, temp.live_group AS g
WHERE c.kind = 'MOUNT';

-- All that is measured of a group in one place.
CREATE TEMP VIEW v$event_histogram_micro AS
WITH
    event(event, micros, count, last) AS (
        SELECT 'disk ' || lower(class), below, count, last FROM temp.live_disk_time
        UNION ALL
        SELECT 'file ' || lower(class), below, count, last FROM temp.live_file_time
        UNION ALL
        SELECT 'extent move', micros, count, NULL FROM temp.live_move_wait)
SELECT
    e.event AS event,
    CASE WHEN e.micros < 1000 THEN e.micros || iif(e.micros = 1, ' microsecond', ' microseconds')
        WHEN e.micros < 1000000 THEN (e.micros / 1000) || iif(e.micros / 1000 = 1, ' millisecond', ' milliseconds')
        WHEN e.micros < 60000000 THEN (e.micros / 1000000) || iif(e.micros / 1000000 = 1, ' second', ' seconds')
        ELSE (e.micros / 60000000) || iif(e.micros / 60000000 = 1, ' minute', ' minutes') END AS wait_time_format,
    e.micros AS wait_time_micro,
    sum(e.count) AS wait_count,
    strftime('%Y-%m-%d %H:%M:%S', max(e.last) / 1000000000, 'unixepoch') AS last_update_time,
    0 AS con_id,
    g.number AS group_number
FROM event AS e, temp.live_group AS g
GROUP BY e.event, e.micros;

CREATE TEMP VIEW v$asm_error AS
SELECT
    g.number AS group_number,
    t.disk AS disk_number,
    d.name AS name,
    t.kind AS kind,
    t.count AS count,
    strftime('%Y-%m-%d %H:%M:%S', t.first / 1000000000, 'unixepoch') AS first_time,
    strftime('%Y-%m-%d %H:%M:%S', t.last / 1000000000, 'unixepoch') AS last_time,
    t.offset AS last_offset,
    t.length AS last_bytes,
    t.offset / g.au_size AS last_au,
    t.text AS last_text,
    0 AS con_id
FROM temp.live_trouble AS t LEFT JOIN temp.live_disk AS d ON d.number = t.disk, temp.live_group AS g;

CREATE TEMP VIEW v$asm_space AS
SELECT
    g.number AS group_number,
    g.name AS name,
    g.redundancy AS type,
    s.total AS total_bytes,
    s.free AS free_bytes,
    s.catalog AS catalog_bytes,
    s.files AS file_bytes,
    s.pending AS pending_bytes,
    s.writable AS writable_bytes,
    s.writable - s.safe AS reserve_bytes,
    s.safe AS safe_bytes,
    s.bound_by AS bound_by,
    iif(s.restorable, 'Y', 'N') AS restorable,
    s.unprot AS unprot_bytes,
    s.mirror AS mirror_bytes,
    s.high AS high_bytes,
    s.remark AS note,
    0 AS con_id
FROM temp.live_space AS s, temp.live_group AS g;

-- Mirrors of extents: whose, which one, where.
CREATE TEMP VIEW extent_mirror AS
SELECT id, file, number, 0 AS mirror, d0 AS disk, a0 AS au, (d0 IS NOT NULL) + (d1 IS NOT NULL) + (d2 IS NOT NULL) AS mirrors
FROM main.extent WHERE d0 IS NOT NULL
UNION ALL
SELECT id, file, number, 1, d1, a1, (d0 IS NOT NULL) + (d1 IS NOT NULL) + (d2 IS NOT NULL)
FROM main.extent WHERE d1 IS NOT NULL
UNION ALL
SELECT id, file, number, 2, d2, a2, (d0 IS NOT NULL) + (d1 IS NOT NULL) + (d2 IS NOT NULL)
FROM main.extent WHERE d2 IS NOT NULL;

-- The extent map. A small file has a slot of an AU that it shares. flags: 1, the disk lacks writes
-- of it; 2, the AU is shared.
CREATE TEMP VIEW x$kffxp AS
SELECT
    printf('%016X', m.id * 4 + m.mirror) AS addr,
    m.id * 4 + m.mirror AS indx,
    1 AS inst_id,
    g.number AS group_kffxp,
    m.owner AS number_kffxp,
    (g.number << 24) + m.owner AS compound_kffxp,
    f.generation AS incarn_kffxp,
    iif(m.file = 0, 0, m.number) * m.mirrors + m.mirror AS pxn_kffxp,
    iif(m.file = 0, 0, m.number) AS xnum_kffxp,
    m.mirror AS lxn_kffxp,
    m.disk AS disk_kffxp,
    m.au AS au_kffxp,
    coalesce((SELECT m.id - s.first < s.count FROM main.stale AS s WHERE s.disk = m.disk AND s.first <= m.id
        ORDER BY s.first DESC LIMIT 1), 0)
        + iif(m.file = 0, 2, 0) AS flags_kffxp,
    NULL AS chk_kffxp,
    1 AS size_kffxp,
    0 AS con_id,
    iif(m.file = 0, f.slot * 65536, 0) AS offset_kffxp
FROM (
    SELECT e.*, e.file AS owner FROM temp.extent_mirror AS e WHERE e.file <> 0
    UNION ALL
    SELECT e.*, s.number FROM temp.extent_mirror AS e JOIN main.file AS s ON s.shared_extent = e.id WHERE e.file = 0
) AS m JOIN main.file AS f ON f.number = m.owner, temp.live_group AS g;

-- AUs in use: those of files by the catalog, the rest by the membership and the layout.
CREATE TEMP VIEW taken_unit AS
SELECT disk, au, file, number, iif(file = 0, 'SHARED', 'FILE') AS what, mirror FROM temp.extent_mirror
UNION ALL
SELECT disk, au, CASE what WHEN 'CATALOG' THEN 1 WHEN 'LOG' THEN 3 ELSE 0 END, number, what, 0 FROM temp.live_unit;

-- Every AU of every disk. Free ones are those between the others; the first AU of a disk is always
-- taken.
CREATE TEMP VIEW x$kfdat AS
WITH RECURSIVE
    bound(disk, au, next) AS (
        SELECT t.disk, t.au, coalesce(lead(t.au) OVER (PARTITION BY t.disk ORDER BY t.au), c.count)
        FROM temp.taken_unit AS t JOIN temp.live_unit_count AS c ON c.disk = t.disk),
    free(disk, au, next) AS (
        SELECT disk, au + 1, next FROM bound WHERE au + 1 < next
        UNION ALL
        SELECT disk, au + 1, next FROM free WHERE au + 1 < next)
SELECT
    printf('%016X', (u.disk << 32) + u.au) AS addr,
    (u.disk << 32) + u.au AS indx,
    1 AS inst_id,
    g.number AS group_kfdat,
    u.disk AS number_kfdat,
    (g.number << 24) + u.disk AS compound_kfdat,
    u.au AS aunum_kfdat,
    iif(u.what = 'FREE', 'F', 'V') AS v_kfdat,
    u.file AS fnum_kfdat,
    0 AS i_kfdat,
    u.number AS xnum_kfdat,
    NULL AS raw_kfdat,
    0 AS con_id,
    u.what AS what_kfdat,
    u.mirror AS lxn_kfdat
FROM (
    SELECT disk, au, file, number, what, mirror FROM temp.taken_unit
    UNION ALL
    SELECT disk, au, 0, 0, 'FREE', 0 FROM free
) AS u, temp.live_group AS g;

CREATE TEMP VIEW x$kfdpartner AS
SELECT
    printf('%016X', (p.disk << 32) + p.partner) AS addr,
    (p.disk << 32) + p.partner AS indx,
    1 AS inst_id,
    g.number AS grp,
    p.disk AS disk,
    (g.number << 24) + p.disk AS compound,
    p.partner AS number_kfdpartner,
    0 AS parity_kfdpartner,
    p.active AS active_kfdpartner,
    0 AS con_id
FROM temp.live_partner AS p, temp.live_group AS g;
