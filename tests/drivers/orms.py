"""asyncpg, psycopg 2 and SQLAlchemy against an instance: what they ask before the first query, and what reflection finds.

The environment says where: SOCKETS (a directory), PORT, ROOT (the authority's certificate).
"""

import asyncio
import datetime
import json
import os

import asyncpg
import psycopg2
import psycopg2.extras
import sqlalchemy

SOCKETS = os.environ["SOCKETS"]


async def with_asyncpg():
    connection = await asyncpg.connect(host=SOCKETS, user="root", database="plinth")
    await connection.set_type_codec("json", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    rows = await connection.fetch("SELECT disk_number, name FROM v$asm_disk WHERE group_number = $1 ORDER BY 1", 1)
    assert [tuple(row) for row in rows] == [(0, "DATA_0000"), (1, "DATA_0001")], rows
    some = "SELECT count(*) FROM v$asm_disk WHERE name = ANY($1) AND disk_number = ANY($2)"
    assert await connection.fetchval(some, ["DATA_0000", 'x, "y\\', None], [0, 7]) == 1
    assert await connection.fetchval(some, [], [0]) == 0
    row = await connection.fetchrow("SELECT typbyval, typname FROM pg_type WHERE oid = $1", 20)
    assert row["typbyval"] is True and row["typname"] == "int8", row
    now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)
    row = await connection.fetchrow(
        "SELECT create_date, sysdate AS now, to_date('2026-03-07', 'YYYY-MM-DD') AS day, $2::timestamp AS same"
        " FROM v$asm_disk WHERE create_date <= $1 AND disk_number = 0", now, now)
    assert isinstance(row["create_date"], datetime.datetime) and row["now"] >= row["create_date"], row
    assert row["day"] == datetime.datetime(2026, 3, 7) and row["same"] == now, row
    await connection.reset()
    await connection.close()
    pool = await asyncpg.create_pool(host=SOCKETS, user="root", database="plinth", min_size=1, max_size=2)
    for _ in range(3):
        assert await pool.fetchval("SELECT count(*) FROM v$asm_disk") == 2
    await pool.close()


def with_psycopg2():
    connection = psycopg2.connect(host=SOCKETS, user="root", dbname="plinth")
    assert not any(psycopg2.extras.HstoreAdapter.get_oids(connection))
    with connection.cursor() as cursor:
        cursor.execute("SELECT rolsuper, rolname FROM pg_roles WHERE rolname = current_user")
        assert cursor.fetchone() == (True, "root")
    connection.close()


def with_sqlalchemy():
    engine = sqlalchemy.create_engine(f"postgresql+psycopg2://root@/plinth?host={SOCKETS}")
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT count(*) FROM v$asm_disk")).scalar() == 2
    inspector = sqlalchemy.inspect(engine)
    assert "public" in inspector.get_schema_names(), inspector.get_schema_names()
    assert inspector.get_table_names() == [] and "v$asm_disk" in inspector.get_view_names()
    assert inspector.has_table("v$asm_disk") and not inspector.has_table("v$asm_nothing")
    columns = {column["name"]: column for column in inspector.get_columns("v$asm_disk")}
    assert isinstance(columns["total_mb"]["type"], sqlalchemy.BIGINT), columns["total_mb"]
    assert isinstance(columns["name"]["type"], sqlalchemy.TEXT) and columns["name"]["nullable"] is True, columns["name"]
    table = sqlalchemy.Table("v$asm_diskgroup", sqlalchemy.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.select(table.c.name)).scalars().all() == ["DATA"]
    engine.dispose()


asyncio.run(with_asyncpg())
with_psycopg2()
with_sqlalchemy()
print("fine")
