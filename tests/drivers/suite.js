// node-postgres against an instance: what people's programs do, checked by value and type.
// The environment says where: SOCKETS (a directory), PORT, ROOT (the authority's certificate).

const assert = require('assert');
const fs = require('fs');
const { Socket } = require('net');
const { Client, Pool } = require('pg');

const ENDLESS = 'WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r';
const network = (user, password) => ({
    host: '127.0.0.1',
    port: Number(process.env.PORT),
    user,
    password,
    database: 'plinth',
    ssl: { ca: fs.readFileSync(process.env.ROOT, 'utf8') },
});

async function refused(state, what) {
    try {
        await what();
    } catch (error) {
        assert.strictEqual(error.code, state, `${state}: ${error.code} ${error.message}`);
        return error;
    }
    assert.fail(`not refused: ${state}`);
}

async function suite(client, where) {
    const disks = await client.query(
        'SELECT disk_number, name, total_mb, free_mb / 2 AS half FROM v$asm_disk WHERE group_number = $1 AND name LIKE $2 ORDER BY 1',
        [1, 'DATA%'],
    );
    // 64 bits do not fit a number of JavaScript: node-postgres gives text.
    assert.deepStrictEqual(disks.rows.map((row) => row.disk_number), ['0', '1']);
    assert.strictEqual(disks.rows[0].name, 'DATA_0000');
    assert.strictEqual(typeof disks.rows[0].half, 'number');
    assert.deepStrictEqual(disks.fields.map((field) => field.dataTypeID), [20, 25, 20, 701]);
    for (let round = 0; round < 3; round++) {
        const named = { name: 'by-number', text: 'SELECT name FROM v$asm_disk WHERE disk_number = $1', values: [round % 2] };
        assert.strictEqual((await client.query(named)).rows[0].name, `DATA_000${round % 2}`);
    }
    const times = await client.query(
        'SELECT create_date, sysdate AS now, NULL::timestamp AS unset FROM v$asm_disk WHERE create_date <= $1 AND disk_number = 0',
        [new Date()],
    );
    assert.deepStrictEqual(times.fields.map((field) => field.dataTypeID), [1114, 1114, 1114]);
    assert(times.rows[0].create_date instanceof Date && times.rows[0].now >= times.rows[0].create_date);
    assert.strictEqual(times.rows[0].unset, null);
    const nothing = await client.query('SELECT $1::text AS a, $2::int AS b', [null, 5]);
    assert.deepStrictEqual(nothing.rows, [{ a: null, b: '5' }]);
    const several = await client.query('SELECT 1 AS a; SELECT 2 AS a');
    assert.deepStrictEqual(several.map((result) => result.rows[0].a), ['1', '2']);
    assert.strictEqual((await client.query("SET application_name TO 'tour'")).command, 'SET');
    assert.strictEqual((await client.query('SHOW application_name')).rows[0].application_name, 'tour');

    const missing = await refused('42P01', () => client.query('SELECT * FROM v$asm_nothing'));
    assert.strictEqual(missing.position, '15');
    assert.match(missing.detail, /ORA-00942/);
    await refused('42703', () => client.query('SELECT missing FROM v$asm_disk WHERE name = $1', ['x']));
    await refused('22P02', () => client.query('SELECT 1 FROM v$asm_disk WHERE disk_number = $1', ['x']));
    await refused('0A000', () => client.query('DELETE FROM v$asm_disk'));

    await client.query('BEGIN');
    await refused('25001', () => client.query('ALTER DISKGROUP data REBALANCE'));
    await client.query('SAVEPOINT a');
    await client.query('ROLLBACK TO SAVEPOINT a');
    await client.query('COMMIT');

    const notices = [];
    client.on('notice', (notice) => notices.push(notice.message));
    assert.strictEqual((await client.query('ALTER DISKGROUP data CHECK')).command, 'ALTER');
    assert(notices.some((text) => text.includes('0 left')), notices.join());

    // The library cancels what has not begun; what runs is cancelled by the key, as psql does it.
    const running = refused('57014', () => client.query(ENDLESS));
    await new Promise((resolve) => setTimeout(resolve, 300));
    await new Promise((resolve) => {
        const socket = new Socket();
        const packet = Buffer.alloc(16);
        packet.writeInt32BE(16, 0);
        packet.writeInt32BE(80877102, 4);
        packet.writeInt32BE(client.processID, 8);
        packet.writeInt32BE(client.secretKey, 12);
        socket.on('close', resolve).on('error', resolve);
        const path = where.host.startsWith('/') ? `${where.host}/.s.PGSQL.5432` : undefined;
        socket.connect(path ? { path } : { host: where.host, port: where.port }, () => socket.write(packet));
    });
    assert.match((await running).detail, /ORA-01013/);
    assert.deepStrictEqual((await client.query('SELECT 1 AS a')).rows, [{ a: '1' }]);
}

(async () => {
    for (const where of [{ host: process.env.SOCKETS, user: 'root', database: 'plinth' }, network('boss', 'secret')]) {
        const client = new Client(where);
        await client.connect();
        await suite(client, where);
        await client.end();
        const pool = new Pool({ ...where, max: 3 });
        const all = await Promise.all(Array.from({ length: 9 }, () => pool.query('SELECT count(*) AS n FROM v$asm_disk')));
        assert(all.every((result) => result.rows[0].n === '2'));
        await pool.end();
    }
    for (const [user, password] of [['boss', 'wrong'], ['nobody', 'secret']]) {
        await refused('28P01', () => new Client(network(user, password)).connect());
    }
    const viewer = new Client(network('viewer', 'secret'));
    await viewer.connect();
    await refused('42501', () => viewer.query('ALTER DISKGROUP data DISMOUNT'));
    await viewer.end();
    console.log('fine');
})().catch((error) => {
    console.error(error);
    process.exit(1);
});
