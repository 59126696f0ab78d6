-- The views of one mounted group, with ASM's columns and words.
--
-- They live in the connection that answers queries, over the catalog's tables and
-- three small tables of what changes by the moment, filled before each query.
-- The columns that ASM does not have stand last. Times are UTC. Sizes in `_mb` are MiB.

-- One row, whose rowid is 1.
CREATE TEMP TABLE live_group (
    number               INTEGER NOT NULL, -- as the instance numbers groups
    name                 TEXT NOT NULL,
    logical_sector       INTEGER NOT NULL,
    sector               INTEGER NOT NULL,
    au_size              INTEGER NOT NULL,
    state                TEXT NOT NULL,
    redundancy           TEXT NOT NULL,    -- EXTERN, NORMAL, HIGH
    total                INTEGER NOT NULL, -- bytes, before mirroring
    free                 INTEGER NOT NULL,
    required_mirror_free INTEGER NOT NULL,
    usable               INTEGER NOT NULL, -- bytes, after mirroring; may be negative
    offline_disks        INTEGER NOT NULL
);

CREATE TEMP TABLE live_disk (
    number          INTEGER PRIMARY KEY,
    mount_status    TEXT NOT NULL,
    header_status   TEXT NOT NULL,
    mode_status     TEXT NOT NULL,
    state           TEXT NOT NULL,
    os_size         INTEGER NOT NULL, -- bytes
    total           INTEGER NOT NULL,
    free            INTEGER NOT NULL,
    name            TEXT NOT NULL,
    failure_group   TEXT NOT NULL,
    quorum          INTEGER NOT NULL,
    path            TEXT NOT NULL,
    id              TEXT NOT NULL,
    created         INTEGER NOT NULL, -- nanoseconds since 1970
    mounted         INTEGER NOT NULL,
    repair_timer    INTEGER NOT NULL, -- seconds
    reads           INTEGER NOT NULL,
    writes          INTEGER NOT NULL,
    read_errors     INTEGER NOT NULL,
    write_errors    INTEGER NOT NULL,
    read_timeouts   INTEGER NOT NULL,
    write_timeouts  INTEGER NOT NULL,
    read_time       INTEGER NOT NULL, -- microseconds
    write_time      INTEGER NOT NULL,
    bytes_read      INTEGER NOT NULL,
    bytes_written   INTEGER NOT NULL,
    blocks_repaired INTEGER NOT NULL,
    metadata_repaired INTEGER NOT NULL,
    votes           INTEGER NOT NULL,
    sector          INTEGER NOT NULL,
    logical_sector  INTEGER NOT NULL,
    can_discard     INTEGER NOT NULL,
    hash            INTEGER NOT NULL, -- of its id
    preferred       TEXT NOT NULL     -- Y, N, U
);

CREATE TEMP TABLE live_operation (
    pass   TEXT NOT NULL,
    state  TEXT NOT NULL,
    power  INTEGER NOT NULL,
    so_far INTEGER NOT NULL, -- AUs
    work   INTEGER NOT NULL,
    rate   INTEGER NOT NULL, -- AUs per minute
    bytes  INTEGER NOT NULL,
    error  TEXT
);

CREATE TEMP TABLE live_move_wait (
    micros INTEGER NOT NULL, -- a power of two: it took so long at most, and longer than half of it
    count  INTEGER NOT NULL
);

-- Defaults of attributes that are not set: filled once.
CREATE TEMP TABLE default_attribute (
    name      TEXT PRIMARY KEY,
    value     TEXT NOT NULL,
    read_only INTEGER NOT NULL
);

CREATE TEMP VIEW v$asm_diskgroup AS
SELECT
    g.number AS group_number,
    g.name AS name,
    g.sector AS sector_size,
    g.logical_sector AS logical_sector_size,
    4096 AS block_size,
    g.au_size AS allocation_unit_size,
    g.state AS state,
    g.redundancy AS type,
    g.total >> 20 AS total_mb,
    g.free >> 20 AS free_mb,
    0 AS hot_used_mb,
    (g.total - g.free) >> 20 AS cold_used_mb,
    g.required_mirror_free >> 20 AS required_mirror_free_mb,
    g.usable / 1048576 AS usable_file_mb,
    g.offline_disks AS offline_disks,
    (SELECT value FROM main.attribute WHERE name = 'compatible.asm') AS compatibility,
    (SELECT value FROM main.attribute WHERE name = 'compatible.rdbms') AS database_compatibility,
    'N' AS voting_files,
    0 AS con_id
FROM temp.live_group AS g;

CREATE TEMP VIEW v$asm_disk AS
SELECT
    g.number AS group_number,
    d.number AS disk_number,
    (g.number << 24) + d.number AS compound_index,
    d.created / 1000000000 AS incarnation,
    d.mount_status AS mount_status,
    d.header_status AS header_status,
    d.mode_status AS mode_status,
    d.state AS state,
    'UNKNOWN' AS redundancy,
    'System' AS library,
    d.os_size >> 20 AS os_mb,
    d.total >> 20 AS total_mb,
    d.free >> 20 AS free_mb,
    0 AS hot_used_mb,
    (d.total - d.free) >> 20 AS cold_used_mb,
    d.name AS name,
    d.failure_group AS failgroup,
    NULL AS label,
    d.path AS path,
    d.id AS udid,
    NULL AS product,
    strftime('%Y-%m-%d %H:%M:%S', d.created / 1000000000, 'unixepoch') AS create_date,
    strftime('%Y-%m-%d %H:%M:%S', d.mounted / 1000000000, 'unixepoch') AS mount_date,
    d.repair_timer AS repair_timer,
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
    d.preferred AS preferred_read,
    d.hash AS hash_value,
    0 AS hot_reads,
    0 AS hot_writes,
    0 AS hot_bytes_read,
    0 AS hot_bytes_written,
    d.reads AS cold_reads,
    d.writes AS cold_writes,
    d.bytes_read AS cold_bytes_read,
    d.bytes_written AS cold_bytes_written,
    iif(d.votes, 'Y', 'N') AS voting_file,
    d.sector AS sector_size,
    d.logical_sector AS logical_sector_size,
    iif(d.quorum, 'QUORUM', 'REGULAR') AS failgroup_type,
    iif(d.can_discard, 'Y', 'N') AS thin_provision_capable,
    'N' AS data_integrity_capable,
    NULL AS site_name,
    NULL AS site_guid,
    NULL AS failgroup_label,
    NULL AS site_label,
    NULL AS site_status,
    0 AS con_id,
    d.blocks_repaired AS blocks_repaired,
    d.metadata_repaired AS metadata_repaired
FROM temp.live_disk AS d, temp.live_group AS g;

-- Extents that do not have all their mirrors on ONLINE disks; of a shared extent `file` is 0.
CREATE TEMP VIEW missing_mirror AS
SELECT * FROM (
    SELECT e.id AS extent, e.file AS file, iif(g.mirrors = 2, max(e.mirrors, 2), g.mirrors) AS wanted,
        iif(e.d0 IN (SELECT number FROM temp.live_disk WHERE mode_status = 'ONLINE'), 1, 0)
        + iif(e.d1 IN (SELECT number FROM temp.live_disk WHERE mode_status = 'ONLINE'), 1, 0)
        + iif(e.d2 IN (SELECT number FROM temp.live_disk WHERE mode_status = 'ONLINE'), 1, 0) AS mirrors_left
    FROM main.extent AS e,
        (SELECT CASE redundancy WHEN 'EXTERN' THEN 1 WHEN 'NORMAL' THEN 2 ELSE 3 END AS mirrors FROM temp.live_group) AS g
) WHERE mirrors_left < wanted;

-- Files that would not survive what the group's redundancy promises, or are partly lost already.
CREATE TEMP VIEW v$asm_missing_mirror AS
SELECT
    g.number AS group_number,
    m.file AS file_number,
    '/' || (
        WITH RECURSIVE up(node, path) AS (
            SELECT e.parent, CAST(e.name AS TEXT) FROM main.entry AS e WHERE e.node = m.file
            UNION ALL
            SELECT e.parent, CAST(e.name AS TEXT) || '/' || up.path
            FROM up JOIN main.entry AS e ON e.node = up.node WHERE up.node <> 1)
        SELECT path FROM up WHERE node = 1 LIMIT 1) AS name,
    CASE max(m.wanted) WHEN 1 THEN 'UNPROT' WHEN 2 THEN 'MIRROR' ELSE 'HIGH' END AS redundancy,
    count(*) AS extents,
    min(m.mirrors_left) AS mirrors_left,
    0 AS con_id
FROM (SELECT file, wanted, mirrors_left FROM temp.missing_mirror WHERE file <> 0
    UNION ALL
    SELECT f.number, s.wanted, s.mirrors_left
    FROM temp.missing_mirror AS s JOIN main.file AS f ON f.shared_extent = s.extent WHERE s.file = 0) AS m,
    temp.live_group AS g
GROUP BY m.file;

-- Regular files. `space` counts all mirrors. SQLite would walk along the partial index file_type,
-- which it takes for half as long as the table, and look up each file's row: hence NOT INDEXED, and
-- file_types for queries that need no more.
CREATE TEMP VIEW v$asm_file AS
SELECT
    g.number AS group_number,
    f.number AS file_number,
    (g.number << 24) + f.number AS compound_index,
    f.generation AS incarnation,
    4096 AS block_size,
    (f.size + 4095) / 4096 AS blocks,
    f.size AS bytes,
    f.blocks * 512 * iif(g.mirrors = 2, max(f.mirrors, 2), g.mirrors) AS space,
    coalesce(f.type, 'DATAFILE') AS type,
    CASE iif(g.mirrors = 2, max(f.mirrors, 2), g.mirrors)
        WHEN 1 THEN 'UNPROT' WHEN 2 THEN 'MIRROR' ELSE 'HIGH' END AS redundancy,
    iif(f.fine, 'FINE', 'COARSE') AS striped,
    strftime('%Y-%m-%d %H:%M:%S', f.created / 1000000000, 'unixepoch') AS creation_date,
    strftime('%Y-%m-%d %H:%M:%S', f.modified / 1000000000, 'unixepoch') AS modification_date,
    CASE WHEN f.mirrors = 0
            AND NOT EXISTS (SELECT 1 FROM temp.live_disk WHERE mode_status <> 'ONLINE' AND NOT quorum) THEN 'N'
        WHEN EXISTS (SELECT 1 FROM temp.missing_mirror AS m WHERE m.file = f.number) THEN 'Y'
        WHEN EXISTS (SELECT 1 FROM temp.missing_mirror AS m WHERE m.extent = f.shared_extent) THEN 'Y'
        ELSE 'N' END AS redundancy_lowered,
    substr('---r--rw-', 1 + 3 * CASE WHEN f.mode & 128 THEN 2 WHEN f.mode & 256 THEN 1 ELSE 0 END, 3)
        || substr('---r--rw-', 1 + 3 * CASE WHEN f.mode & 16 THEN 2 WHEN f.mode & 32 THEN 1 ELSE 0 END, 3)
        || substr('---r--rw-', 1 + 3 * CASE WHEN f.mode & 2 THEN 2 WHEN f.mode & 4 THEN 1 ELSE 0 END, 3)
        AS permissions,
    f.uid AS user_number,
    0 AS user_incarnation,
    f.gid AS usergroup_number,
    0 AS usergroup_incarnation,
    'COLD' AS primary_region,
    'COLD' AS mirror_region,
    0 AS hot_reads,
    0 AS hot_writes,
    0 AS hot_bytes_read,
    0 AS hot_bytes_written,
    coalesce(l.small_reads + l.large_reads, 0) AS cold_reads,
    coalesce(l.small_writes + l.large_writes, 0) AS cold_writes,
    coalesce(l.bytes_read, 0) AS cold_bytes_read,
    coalesce(l.bytes_written, 0) AS cold_bytes_written,
    0 AS filegroup_number,
    0 AS filegroup_incarnation,
    'N' AS remirror,
    0 AS parent_filnum,
    0 AS parent_filnuminc,
    0 AS con_id
FROM (SELECT number, CASE redundancy WHEN 'EXTERN' THEN 1 WHEN 'NORMAL' THEN 2 ELSE 3 END AS mirrors
      FROM temp.live_group WHERE rowid = 1) AS g,
    main.file AS f NOT INDEXED LEFT JOIN temp.live_file AS l ON l.number = f.number
WHERE f.kind = 32768;

-- The same files for statements that read nothing but their types: a walk along the index.
CREATE TEMP VIEW file_types AS
SELECT coalesce(f.type, 'DATAFILE') AS type FROM main.file AS f WHERE f.kind = 32768;

-- Names of files and directories, as a tree: a row's parent_index is its directory's
-- reference_index, and MOD(parent_index, POWER(2, 24)) is 0 at the root only. A file's
-- reference_index is no directory's. Up to 2^24 directories the numbers are ASM's: the group's
-- number, then 24 bits. INDEXED BY the table's own order: along entry_node, which SQLite would
-- choose, each row would have to be looked up. (NOT INDEXED means nothing for a table WITHOUT
-- ROWID.)
CREATE TEMP VIEW v$asm_alias AS
SELECT
    CAST(e.name AS TEXT) AS name,
    g.number AS group_number,
    iif(e.kind = 16384, 4294967295, e.node) AS file_number,
    iif(e.kind = 16384, 4294967295, f.generation) AS file_incarnation,
    e.cookie AS alias_index,
    1 AS alias_incarnation,
    (g.number << 24) + CASE e.parent
        WHEN 1 THEN 0
        ELSE (((e.parent - 1) / 16777214) << 40) + (e.parent - 1) % 16777214 + 1 END AS parent_index,
    (g.number << 24) + CASE e.kind
        WHEN 16384 THEN (((e.node - 1) / 16777214) << 40) + (e.node - 1) % 16777214 + 1
        ELSE 16777215 END AS reference_index,
    iif(e.kind = 16384, 'Y', 'N') AS alias_directory,
    iif(e.system, 'Y', 'N') AS system_created,
    0 AS con_id
FROM temp.live_group AS g, main.entry AS e INDEXED BY sqlite_autoindex_entry_1 LEFT JOIN main.file AS f ON f.number = e.node
WHERE g.rowid = 1;

-- The same names for statements that only count them.
CREATE TEMP VIEW entries AS SELECT 1 AS entry FROM main.entry;

CREATE TEMP VIEW v$asm_template AS
SELECT
    g.number AS group_number,
    t.number AS entry_number,
    CASE g.redundancy WHEN 'EXTERN' THEN 'UNPROT' WHEN 'HIGH' THEN 'HIGH'
        ELSE CASE t.mirrors WHEN 1 THEN 'UNPROT' WHEN 3 THEN 'HIGH' ELSE 'MIRROR' END END AS redundancy,
    iif(t.fine, 'FINE', 'COARSE') AS stripe,
    iif(t.system, 'Y', 'N') AS system,
    t.name AS name,
    'COLD' AS primary_region,
    'COLD' AS mirror_region,
    0 AS con_id
FROM main.template AS t, temp.live_group AS g;

-- Long operations, and how the last of each pass ended.
CREATE TEMP VIEW operation AS
SELECT
    g.number AS group_number,
    CASE o.pass WHEN 'SCRUBBING' THEN 'SCRUB' WHEN 'CHECKING' THEN 'CHECK' ELSE 'REBAL' END AS operation,
    o.pass AS pass,
    o.state AS state,
    o.power AS power,
    o.power AS actual,
    o.so_far AS sofar,
    o.work AS est_work,
    o.rate AS est_rate,
    CASE WHEN o.rate > 0 THEN (max(o.work - o.so_far, 0) + o.rate - 1) / o.rate ELSE 0 END AS est_minutes,
    o.error AS error_code,
    0 AS con_id,
    o.bytes AS bytes
FROM temp.live_operation AS o, temp.live_group AS g;

-- Operations that run, and beside them those that have ended meanwhile. Scripts wait until there
-- are no rows; failed operations stay.
CREATE TEMP VIEW v$asm_operation AS
SELECT * FROM operation
WHERE state <> 'DONE' OR EXISTS (SELECT 1 FROM temp.live_operation WHERE state IN ('WAIT', 'RUN'));

CREATE TEMP VIEW v$asm_operation_ended AS SELECT * FROM operation WHERE state IN ('DONE', 'ERRS');

-- How long front ends waited for extents on the move, as v$event_histogram_micro says it.
CREATE TEMP VIEW v$asm_move_wait_histogram AS
SELECT
    g.number AS group_number,
    w.micros AS wait_time_micro,
    w.count AS wait_count,
    CASE WHEN w.micros < 1000 THEN w.micros || iif(w.micros = 1, ' microsecond', ' microseconds')
        WHEN w.micros < 1000000 THEN (w.micros / 1000) || iif(w.micros / 1000 = 1, ' millisecond', ' milliseconds')
        WHEN w.micros < 60000000 THEN (w.micros / 1000000) || iif(w.micros / 1000000 = 1, ' second', ' seconds')
        ELSE (w.micros / 60000000) || iif(w.micros / 60000000 = 1, ' minute', ' minutes') END AS wait_time_format,
    0 AS con_id
FROM temp.live_move_wait AS w, temp.live_group AS g;

CREATE TEMP VIEW v$asm_attribute AS
SELECT
    a.name AS name,
    a.value AS value,
    g.number AS group_number,
    row_number() OVER (ORDER BY a.name) - 1 AS attribute_index,
    1 AS attribute_incarnation,
    iif(a.read_only, 'Y', 'N') AS read_only,
    iif(a.system, 'Y', 'N') AS system_created,
    0 AS con_id
FROM (SELECT name, value, read_only, system FROM main.attribute
    UNION ALL
    SELECT d.name, d.value, d.read_only, 1 FROM temp.default_attribute AS d
    WHERE d.name NOT IN (SELECT name FROM main.attribute)
    UNION ALL
    SELECT 'logical_sector_size', CAST(logical_sector AS TEXT), 1, 1 FROM temp.live_group) AS a,
    temp.live_group AS g
WHERE substr(a.name, 1, 1) <> '_';

-- Users and groups of the host that statements know by name.
CREATE TEMP VIEW v$asm_user AS
SELECT
    g.number AS group_number,
    u.number AS user_number,
    0 AS user_incarnation,
    CAST(u.number AS TEXT) AS os_id,
    u.name AS os_name,
    0 AS con_id
FROM main.access_user AS u, temp.live_group AS g;

CREATE TEMP VIEW v$asm_usergroup AS
SELECT
    g.number AS group_number,
    u.number AS usergroup_number,
    0 AS usergroup_incarnation,
    0 AS owner_number,
    0 AS owner_incarnation,
    u.name AS name,
    0 AS con_id
FROM main.access_group AS u, temp.live_group AS g;

CREATE TEMP VIEW v$asm_usergroup_member AS
SELECT
    g.number AS group_number,
    m.user AS member_number,
    0 AS member_incarnation,
    m.usergroup AS usergroup_number,
    0 AS usergroup_incarnation,
    0 AS con_id
FROM main.access_member AS m, temp.live_group AS g;

CREATE TEMP VIEW v$asm_volume AS
SELECT
    g.number AS group_number,
    v.name AS volume_name,
    (g.number << 24) + v.number AS compound_index,
    f.size >> 20 AS size_mb,
    v.number AS volume_number,
    CASE g.redundancy WHEN 'EXTERN' THEN 'UNPROT' WHEN 'NORMAL' THEN 'MIRROR' ELSE 'HIGH' END AS redundancy,
    v.stripe_columns AS stripe_columns,
    v.stripe_width >> 10 AS stripe_width_k,
    iif(v.enabled, 'ENABLED', 'DISABLED') AS state,
    f.number AS file_number,
    f.generation AS incarnation,
    0 AS drl_file_number,
    g.au_size >> 20 AS resize_unit_mb,
    v.usage AS usage,
    NULL AS volume_device,
    v.mount_path AS mountpath,
    'COLD' AS primary_region,
    'COLD' AS mirror_region,
    0 AS con_id
FROM main.volume AS v JOIN main.file AS f ON f.number = v.file AND f.links > 0, temp.live_group AS g
WHERE v.complete;

-- Of what a front end that exports volumes would do: there is none.
CREATE TEMP VIEW v$asm_volume_stat AS
SELECT
    v.group_number AS group_number,
    v.volume_name AS volume_name,
    v.compound_index AS compound_index,
    v.volume_number AS volume_number,
    0 AS reads,
    0 AS writes,
    0 AS read_errs,
    0 AS write_errs,
    0.0 AS read_time,
    0.0 AS write_time,
    0 AS bytes_read,
    0 AS bytes_written,
    0 AS con_id
FROM temp.v$asm_volume AS v;
