"""psycopg 3 against an instance: what people's programs do, checked by value and type.

The environment says where: SOCKETS (a directory), PORT, ROOT (the authority's certificate).
"""

import datetime
import os
import threading
import time

import psycopg
from psycopg.rows import dict_row

ENDLESS = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"
NETWORK = f"host=127.0.0.1 port={os.environ['PORT']} sslmode=verify-full sslrootcert={os.environ['ROOT']}"


def refused(state, what):
    try:
        what()
    except psycopg.Error as error:
        assert error.sqlstate == state, (state, error.sqlstate, str(error))
        return error
    raise AssertionError(f"not refused: {state}")


def queries(connection):
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute("SELECT name, total_mb, round(free_mb / 3, 2) AS third, NULL AS unset FROM v$asm_diskgroup")
        row = cursor.fetchone()
        assert row["name"] == "DATA" and isinstance(row["total_mb"], int) and isinstance(row["third"], float), row
        assert row["unset"] is None
    for binary in (False, True):
        with connection.cursor(binary=binary) as cursor:
            for _ in range(8):  # from the sixth on it is prepared on the server
                cursor.execute(
                    "SELECT disk_number, name, %s::text, %s::int, %b::float8 FROM v$asm_disk"
                    " WHERE group_number = %s AND name LIKE %s ORDER BY 1",
                    ("grün", 7, 0.5, 1, "DATA%"),
                )
                rows = cursor.fetchall()
                assert [row[0] for row in rows] == [0, 1], rows
                assert rows[0][1:] == ("DATA_0000", "grün", 7, 0.5), rows
            times = "SELECT create_date, sysdate, max(mount_date), systimestamp, NULL::timestamp FROM v$asm_disk"
            cursor.execute(f"{times} WHERE create_date <= %s AND create_date > %s GROUP BY 1",
                           (datetime.datetime.now(datetime.timezone.utc), datetime.datetime(2020, 1, 1)))
            assert [column.type_code for column in cursor.description] == [1114] * 5, cursor.description
            *known, unset = cursor.fetchone()
            assert unset is None and all(isinstance(time, datetime.datetime) for time in known), known
            cursor.execute("SELECT %s::timestamp, to_char(%s::timestamp, 'HH24:MI:SS')",
                           (datetime.datetime(2026, 3, 7, 15, 4, 9), datetime.datetime(2026, 3, 7, 15, 4, 9)))
            assert cursor.fetchone() == (datetime.datetime(2026, 3, 7, 15, 4, 9), "15:04:09")
    assert connection.execute("SELECT count(*), avg(total_mb), upper('x'), sum(total_mb) FROM v$asm_disk").fetchone()[2] == "X"
    assert connection.execute("SELECT %s::int + 1", (None,)).fetchone() == (None,)
    assert connection.execute("SHOW server_version").fetchone()[0].startswith("15")
    some = connection.execute("SELECT count(*) FROM v$asm_disk WHERE name = ANY(%s) AND disk_number = ANY(%s)",
                              (["DATA_0000", "x, y"], [0, 7]))
    assert some.fetchone() == (1,)
    with connection.cursor() as cursor:
        cursor.executemany("SELECT %s::int", [(1,), (2,)])


def errors(connection):
    error = refused("42P01", lambda: connection.execute("SELECT * FROM v$asm_nothing"))
    assert error.diag.statement_position == "15" and "ORA-00942" in error.diag.message_detail, error.diag.message_detail
    refused("42703", lambda: connection.execute("SELECT missing FROM v$asm_disk"))
    refused("42601", lambda: connection.execute("SELEKT 1"))
    refused("0A000", lambda: connection.execute("INSERT INTO v$asm_disk VALUES (1)"))
    refused("22P02", lambda: connection.execute("SELECT 1 FROM v$asm_disk WHERE group_number = %s", ("x",)))
    assert connection.execute("SELECT 1").fetchone() == (1,)


def formats(connection):
    query = "SELECT create_date FROM v$asm_disk WHERE create_date > '01-JAN-20' AND disk_number = 0"
    connection.execute("ALTER SESSION SET nls_date_format = 'DD-MON-RR'")
    for binary in (False, True):
        with connection.cursor(binary=binary) as cursor:
            cursor.execute(query)
            assert cursor.description[0].type_code == 25 and len(cursor.fetchone()[0]) == 9
    # A statement that is prepared when the format changes is described anew.
    with connection.cursor(binary=True) as cursor:
        for setting, kind in (("RESET nls_date_format", datetime.datetime),
                              ("ALTER SESSION SET nls_date_format = 'YYYY'", str),
                              ("RESET nls_date_format", datetime.datetime)):
            connection.execute(setting)
            cursor.execute("SELECT create_date FROM v$asm_disk", prepare=True)
            assert isinstance(cursor.fetchone()[0], kind), setting
    assert isinstance(connection.execute("SELECT max(create_date) FROM v$asm_disk").fetchone()[0], datetime.datetime)


def transactions(connection):
    connection.autocommit = False
    with connection.transaction():
        connection.execute("SELECT 1")
        with connection.transaction():
            connection.execute("SELECT 2")
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        refused("25001", lambda: connection.execute("ALTER DISKGROUP data REBALANCE"))
    connection.rollback()
    connection.autocommit = True


def cancelling(connection):
    def later():
        time.sleep(0.3)
        connection.cancel()

    thread = threading.Thread(target=later)
    thread.start()
    error = refused("57014", lambda: connection.execute(ENDLESS))
    assert "ORA-01013" in error.diag.message_detail, error.diag.message_detail
    thread.join()
    assert connection.execute("SELECT 1").fetchone() == (1,)


def administering(connection):
    told = []
    connection.add_notice_handler(lambda diagnostic: told.append(diagnostic.message_primary))
    connection.execute("ALTER DISKGROUP data CHECK")
    assert any("0 left" in text for text in told), told
    refused("55000", lambda: connection.execute("ALTER DISKGROUP nix REBALANCE"))


for where in (f"host={os.environ['SOCKETS']}", f"{NETWORK} user=boss password=secret"):
    with psycopg.connect(where, autocommit=True) as connection:
        queries(connection)
        errors(connection)
        formats(connection)
        transactions(connection)
        cancelling(connection)
        administering(connection)

for user, password in (("boss", "wrong"), ("nobody", "secret")):
    try:
        psycopg.connect(f"{NETWORK} user={user} password={password}")
        raise AssertionError("let in")
    except psycopg.OperationalError as error:
        assert "password authentication failed" in str(error), error

with psycopg.connect(f"{NETWORK} user=viewer password=secret", autocommit=True) as connection:
    assert connection.execute("SELECT count(*) FROM v$asm_disk").fetchone() == (2,)
    refused("42501", lambda: connection.execute("ALTER DISKGROUP data DISMOUNT"))
print("fine")
