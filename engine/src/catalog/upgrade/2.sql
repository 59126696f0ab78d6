-- Templates; an explicit type of a file; names that the system made; users, user groups and
-- volumes.

CREATE TABLE template (
    name    TEXT PRIMARY KEY,
    number  INTEGER NOT NULL UNIQUE,
    mirrors INTEGER NOT NULL DEFAULT 0,
    fine    INTEGER NOT NULL DEFAULT 0,
    system  INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

INSERT INTO template (name, number, system) VALUES
    ('CONTROLFILE', 0, 1), ('DATAFILE', 1, 1), ('ONLINELOG', 2, 1), ('ARCHIVELOG', 3, 1), ('TEMPFILE', 4, 1),
    ('BACKUPSET', 5, 1), ('PARAMETERFILE', 6, 1), ('DATAGUARDCONFIG', 7, 1), ('FLASHBACK', 8, 1),
    ('CHANGETRACKING', 9, 1), ('DUMPSET', 10, 1), ('XTRANSPORT', 11, 1), ('AUTOBACKUP', 12, 1),
    ('ASMPARAMETERFILE', 13, 1), ('OCRFILE', 14, 1), ('FLASHFILE', 15, 1), ('AUDIT_SPILLFILES', 16, 1),
    ('INCR XTRANSPORT BACKUPSET', 17, 1), ('KEY_STORE', 18, 1), ('AUTOLOGIN_KEY_STORE', 19, 1), ('PASSWORD', 20, 1),
    ('VOTINGFILE', 21, 1), ('BINLOG', 22, 1), ('JOURNAL', 23, 1), ('UNDOFILE', 24, 1), ('OTHER', 25, 1);
UPDATE template SET mirrors = 3, fine = 1 WHERE name = 'CONTROLFILE';

ALTER TABLE file ADD COLUMN said INTEGER NOT NULL DEFAULT 0;
ALTER TABLE file ADD COLUMN fine INTEGER NOT NULL DEFAULT 0;
ALTER TABLE entry ADD COLUMN system INTEGER NOT NULL DEFAULT 0;
ALTER TABLE extent ADD COLUMN mirrors INTEGER NOT NULL DEFAULT 0;

CREATE TABLE access_user (
    number INTEGER PRIMARY KEY,
    name   TEXT NOT NULL UNIQUE
);

CREATE TABLE access_group (
    number INTEGER PRIMARY KEY,
    name   TEXT NOT NULL UNIQUE
);

CREATE TABLE access_member (
    usergroup INTEGER NOT NULL,
    user      INTEGER NOT NULL,
    PRIMARY KEY (usergroup, user)
) WITHOUT ROWID;

CREATE TABLE volume (
    number         INTEGER PRIMARY KEY,
    name           TEXT NOT NULL UNIQUE,
    file           INTEGER,
    stripe_width   INTEGER NOT NULL,
    stripe_columns INTEGER NOT NULL,
    usage          TEXT,
    mount_path     TEXT,
    enabled        INTEGER NOT NULL DEFAULT 1,
    complete       INTEGER NOT NULL DEFAULT 0
);
