-- The catalog of a disk group. Version 1 (`user_version`).
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
    type          TEXT,               -- DATAFILE, ONLINELOG ...; NULL: not said
    mirrors       INTEGER NOT NULL DEFAULT 0, -- of each extent; 0: as the group
    shared_extent INTEGER,            -- a small file: the shared extent that holds it, and its slot
    slot          INTEGER
);
CREATE INDEX file_orphan ON file (number) WHERE links = 0;
CREATE INDEX file_shared ON file (shared_extent, slot) WHERE shared_extent IS NOT NULL;

-- Names. `.` and `..` are not stored.
CREATE TABLE entry (
    parent INTEGER NOT NULL,
    name   BLOB NOT NULL,
    node   INTEGER NOT NULL,
    kind   INTEGER NOT NULL,
    cookie INTEGER NOT NULL,
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
    pending BLOB                      -- a bit per 64 KiB: written, not yet known to be durable
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
