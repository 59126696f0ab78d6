-- The catalog of a disk group. Version 4 (`user_version`).
-- Catalogs of earlier versions are converted to this one when they are opened: upgrade.rs.
--
-- Times are nanoseconds since 1970, sizes bytes, unless a comment says otherwise.
-- Disks are numbers; the disks that exist, and their states, are in the membership, not here.

-- Counters for the next numbers.
CREATE TABLE counter (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO counter VALUES
    ('node', 256),          -- next file number; 1 is the root
    ('extent', 1),          -- next extent id
    ('cookie', 1),          -- next directory entry's cookie
    ('generation', 1),      -- next file's generation
    ('durable points', 0);

-- Every file, directory, link and special file.
CREATE TABLE file (
    number        INTEGER PRIMARY KEY,
    generation    INTEGER NOT NULL,
    kind          INTEGER NOT NULL,   -- S_IFMT bits
    mode          INTEGER NOT NULL,   -- permission, set-id and sticky bits
    links         INTEGER NOT NULL,   -- 0: freed when nobody holds it any more
    uid           INTEGER NOT NULL,
    gid           INTEGER NOT NULL,
    rdev          INTEGER NOT NULL DEFAULT 0,
    size          INTEGER NOT NULL DEFAULT 0,
    durable_size  INTEGER NOT NULL DEFAULT 0, -- after a loss of power
    blocks        INTEGER NOT NULL DEFAULT 0, -- of 512 bytes, before mirroring
    accessed      INTEGER NOT NULL,
    modified      INTEGER NOT NULL,
    changed       INTEGER NOT NULL,
    created       INTEGER NOT NULL,
    target        BLOB,               -- of a symbolic link
    type          TEXT,               -- DATAFILE, ONLINELOG ...; NULL: no regular file, or of a time when it was not stored
    mirrors       INTEGER NOT NULL DEFAULT 0, -- of each extent, in a group of NORMAL redundancy; 0: as the group
    shared_extent INTEGER,            -- a small file: the shared extent that holds it, and its slot
    slot          INTEGER,
    said          INTEGER NOT NULL DEFAULT 0, -- 1: its type was said when it was made, and names do not change it
    fine          INTEGER NOT NULL DEFAULT 0, -- 1: striped in chunks of 128 KiB over eight extents
    preformatted  INTEGER NOT NULL DEFAULT 0  -- 1: space that it is given is written with zeros
);
-- The type in v$asm_file: counting files by type reads nothing else.
CREATE INDEX file_type ON file (coalesce(type, 'DATAFILE')) WHERE kind = 32768;
CREATE INDEX file_orphan ON file (number) WHERE links = 0;
CREATE INDEX file_shared ON file (shared_extent, slot) WHERE shared_extent IS NOT NULL;

-- Names. `.` and `..` are not stored.
CREATE TABLE entry (
    parent INTEGER NOT NULL,
    name   BLOB NOT NULL,
    node   INTEGER NOT NULL,
    kind   INTEGER NOT NULL,
    cookie INTEGER NOT NULL,
    system INTEGER NOT NULL DEFAULT 0, -- 1: the system made this name, and DBAs neither rename nor drop it
    PRIMARY KEY (parent, name)
) WITHOUT ROWID;
CREATE UNIQUE INDEX entry_cookie ON entry (parent, cookie);
CREATE INDEX entry_node ON entry (node);

CREATE TABLE xattr (
    node  INTEGER NOT NULL,
    name  BLOB NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (node, name)
) WITHOUT ROWID;

-- One AU-sized piece of a file, in one to three mirrors (disk, AU).
CREATE TABLE extent (
    id      INTEGER PRIMARY KEY,      -- never used twice
    file    INTEGER NOT NULL,         -- 0: shared by small files
    number  INTEGER NOT NULL,         -- in the file; of a shared extent, its id
    d0 INTEGER, a0 INTEGER,
    d1 INTEGER, a1 INTEGER,
    d2 INTEGER, a2 INTEGER,
    written BLOB,                     -- a bit per 64 KiB: holds data
    pending BLOB,                     -- a bit per 64 KiB: written, not yet known to be durable
    mirrors INTEGER NOT NULL DEFAULT 0 -- how many it should have; 0: as the group
);
CREATE UNIQUE INDEX extent_file ON extent (file, number);

-- Runs of extent ids of which a disk may lack writes.
CREATE TABLE stale (
    disk  INTEGER NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (disk, first)
) WITHOUT ROWID;

CREATE TABLE attribute (
    name      TEXT PRIMARY KEY,
    value     TEXT NOT NULL,
    read_only INTEGER NOT NULL DEFAULT 0,
    system    INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;

-- Properties of files that are created through them. One for each type of file, and those that DBAs
-- add.
CREATE TABLE template (
    name    TEXT PRIMARY KEY,                 -- upper case
    number  INTEGER NOT NULL UNIQUE,
    mirrors INTEGER NOT NULL DEFAULT 0,       -- of each extent, in a group of NORMAL redundancy; 0: as the group
    fine    INTEGER NOT NULL DEFAULT 0,       -- 1: striped in chunks of 128 KiB over eight extents
    system  INTEGER NOT NULL DEFAULT 0,       -- 1: of a type of file; cannot be dropped
    preformatted INTEGER NOT NULL DEFAULT 0   -- 1: as in `file`
) WITHOUT ROWID;

INSERT INTO template (name, number, system) VALUES
    ('CONTROLFILE', 0, 1), ('DATAFILE', 1, 1), ('ONLINELOG', 2, 1), ('ARCHIVELOG', 3, 1), ('TEMPFILE', 4, 1),
    ('BACKUPSET', 5, 1), ('PARAMETERFILE', 6, 1), ('DATAGUARDCONFIG', 7, 1), ('FLASHBACK', 8, 1),
    ('CHANGETRACKING', 9, 1), ('DUMPSET', 10, 1), ('XTRANSPORT', 11, 1), ('AUTOBACKUP', 12, 1),
    ('ASMPARAMETERFILE', 13, 1), ('OCRFILE', 14, 1), ('FLASHFILE', 15, 1), ('AUDIT_SPILLFILES', 16, 1),
    ('INCR XTRANSPORT BACKUPSET', 17, 1), ('KEY_STORE', 18, 1), ('AUTOLOGIN_KEY_STORE', 19, 1), ('PASSWORD', 20, 1),
    ('VOTINGFILE', 21, 1), ('BINLOG', 22, 1), ('JOURNAL', 23, 1), ('UNDOFILE', 24, 1), ('OTHER', 25, 1);
UPDATE template SET mirrors = 3, fine = 1 WHERE name = 'CONTROLFILE';

-- Users of the host that the group's statements know by name. `number` is the host's.
CREATE TABLE access_user (
    number INTEGER PRIMARY KEY,
    name   TEXT NOT NULL UNIQUE
);

-- Groups of the host, likewise.
CREATE TABLE access_group (
    number INTEGER PRIMARY KEY,
    name   TEXT NOT NULL UNIQUE
);

CREATE TABLE access_member (
    usergroup INTEGER NOT NULL,
    user      INTEGER NOT NULL,
    PRIMARY KEY (usergroup, user)
) WITHOUT ROWID;

-- Volumes. Size and space are those of the file.
CREATE TABLE volume (
    number         INTEGER PRIMARY KEY,
    name           TEXT NOT NULL UNIQUE,
    file           INTEGER,           -- NULL: it is not made yet
    stripe_width   INTEGER NOT NULL,  -- bytes
    stripe_columns INTEGER NOT NULL,
    usage          TEXT,
    mount_path     TEXT,
    enabled        INTEGER NOT NULL DEFAULT 1,
    complete       INTEGER NOT NULL DEFAULT 0 -- 0: it is being made or dropped, and goes at the next mount
);

-- Results of requests that may be sent again: `files/reply_cache.rs`.
CREATE TABLE reply (
    connection INTEGER NOT NULL,      -- of a mount
    slot       INTEGER NOT NULL,      -- a later request writes over it when this one was answered
    request    INTEGER NOT NULL,      -- the kernel's number for it
    node       INTEGER,               -- the file that was made, or got a name
    sequence   INTEGER NOT NULL,      -- of two the higher was begun later
    PRIMARY KEY (connection, slot)
) WITHOUT ROWID;
