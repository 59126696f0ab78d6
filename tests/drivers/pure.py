"""pg8000 against an instance: a driver in Python alone, with both of its interfaces.

The environment says where: SOCKETS (a directory), PORT, ROOT (the authority's certificate).
"""

import datetime
import decimal
import os
import ssl

import pg8000.dbapi
import pg8000.native

LOCAL = {"user": "root", "database": "plinth", "unix_sock": os.path.join(os.environ["SOCKETS"], ".s.PGSQL.5432")}


def network(user, password):
    # The certificate is verified, and its name, too; SCRAM is bound to it.
    context = ssl.create_default_context(cafile=os.environ["ROOT"])
    return {"user": user, "password": password, "database": "plinth", "host": "localhost",
            "port": int(os.environ["PORT"]), "ssl_context": context}


def refused(state, what):
    try:
        what()
    except pg8000.dbapi.DatabaseError as error:
        fields = error.args[0]
        assert fields["C"] == state, (state, fields)
        return fields
    raise AssertionError(f"not refused: {state}")


def native(connection):
    rows = connection.run("SELECT name, total_mb, free_mb / 3 AS third, NULL AS unset FROM v$asm_diskgroup")
    assert rows[0][0] == "DATA" and isinstance(rows[0][1], int) and isinstance(rows[0][2], float), rows
    assert rows[0][3] is None
    assert [column["name"] for column in connection.columns] == ["name", "total_mb", "third", "unset"]
    assert [column["type_oid"] for column in connection.columns][:3] == [25, 20, 701], connection.columns
    disks = "SELECT disk_number, name FROM v$asm_disk WHERE group_number = :number AND name LIKE :name ORDER BY 1"
    assert connection.run(disks, number=1, name="DATA%") == [[0, "DATA_0000"], [1, "DATA_0001"]]
    # Prepared on the server, and used several times.
    prepared = connection.prepare(disks)
    for number, count in ((1, 2), (7, 0), (1, 2)):
        assert len(prepared.run(number=number, name="DATA%")) == count
    prepared.close()
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.datetime(2026, 3, 7, 15, 4, 9, 250000)
    (created, today, same, unset), = connection.run(
        "SELECT create_date, sysdate, :day::timestamp, NULL::timestamp FROM v$asm_disk"
        " WHERE create_date <= :now AND disk_number = 0", day=day, now=now)
    assert isinstance(created, datetime.datetime) and created <= today, (created, today)
    assert same == day and unset is None, (same, unset)
    assert [column["type_oid"] for column in connection.columns] == [1114] * 4
    values = "SELECT :text::text, :big::int8, :real::float8, :none::int8, :decimal::float8, :no::text"
    row, = connection.run(values, text="grün 'x' \\", big=1 << 40, real=0.5, none=None,
                          decimal=decimal.Decimal("0.125"), no=None)
    assert row == ["grün 'x' \\", 1 << 40, 0.5, None, 0.125, None], row
    some = connection.run("SELECT count(*) FROM v$asm_disk WHERE name = ANY(:names)", names=["DATA_0000", "x, y"])
    assert some == [[1]], some
    assert connection.run("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") in ([[True]], [[False]])

    fields = refused("42P01", lambda: connection.run("SELECT * FROM v$asm_nothing"))
    assert fields["P"] == "15" and "ORA-00942" in fields["D"], fields
    refused("42P01", lambda: connection.run("SELECT * FROM v$asm_nothing WHERE name = :name", name="x"))
    refused("42703", lambda: connection.run("SELECT missing FROM v$asm_disk"))
    refused("22P02", lambda: connection.run("SELECT 1 FROM v$asm_disk WHERE disk_number = :number", number="x"))
    refused("0A000", lambda: connection.run("DELETE FROM v$asm_disk"))
    refused("55000", lambda: connection.run("ALTER DISKGROUP nix REBALANCE"))
    assert connection.run("SELECT 1") == [[1]]

    connection.notices.clear()
    connection.run("ALTER DISKGROUP data CHECK")
    assert any(b"0 left" in notice[b"M"] for notice in connection.notices), connection.notices
    connection.run("ALTER DISKGROUP data REBALANCE POWER 4 WAIT")
    assert connection.parameter_statuses["server_version"].startswith("15"), connection.parameter_statuses


def dbapi(connection):
    # Without autocommit each statement begins a transaction, in which only queries are allowed.
    cursor = connection.cursor()
    cursor.execute("SELECT disk_number, name FROM v$asm_disk WHERE name LIKE %s ORDER BY 1", ("DATA%",))
    assert [column[0] for column in cursor.description] == ["disk_number", "name"]
    assert cursor.fetchone() == [0, "DATA_0000"] and cursor.fetchall() == ([1, "DATA_0001"],) and cursor.rowcount == 2
    refused("25001", lambda: cursor.execute("ALTER DISKGROUP data REBALANCE"))
    connection.rollback()
    connection.autocommit = True
    cursor.executemany("SELECT %s::int", [(1,), (2,)])
    cursor.execute("ALTER DISKGROUP data SET ATTRIBUTE 'disk_repair_time' = '5h'")
    cursor.execute("SELECT value FROM v$asm_attribute WHERE name = %s", ("disk_repair_time",))
    assert cursor.fetchall() == (["5.0h"],), cursor
    cursor.execute("ALTER DISKGROUP data SET ATTRIBUTE 'disk_repair_time' = '3.6h'")
    cursor.close()


for where in (LOCAL, network("boss", "secret")):
    with pg8000.native.Connection(**where) as connection:
        native(connection)
    with pg8000.dbapi.connect(**where) as connection:
        dbapi(connection)

for user, password in (("boss", "wrong"), ("nobody", "secret")):
    refused("28P01", lambda: pg8000.native.Connection(**network(user, password)))

with pg8000.native.Connection(**network("viewer", "secret")) as connection:
    assert connection.run("SELECT count(*) FROM v$asm_disk") == [[2]]
    refused("42501", lambda: connection.run("ALTER DISKGROUP data DISMOUNT"))

# A certificate of another authority is not accepted.
try:
    other = {**network("boss", "secret"), "ssl_context": ssl.create_default_context()}
    pg8000.native.Connection(**other)
    raise AssertionError("the certificate was not verified")
except ssl.SSLCertVerificationError:
    pass
print("fine")
