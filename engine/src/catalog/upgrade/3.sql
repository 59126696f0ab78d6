-- Results of requests that may be sent again.

CREATE TABLE reply (
    connection INTEGER NOT NULL,
    slot       INTEGER NOT NULL,
    request    INTEGER NOT NULL,
    node       INTEGER,
    sequence   INTEGER NOT NULL,
    PRIMARY KEY (connection, slot)
) WITHOUT ROWID;
