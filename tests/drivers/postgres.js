// postgres.js against an instance: with its defaults, it reads the types of arrays before its first query.
// The environment says where: SOCKETS (a directory), PORT, ROOT (the authority's certificate).

const assert = require('assert');
const fs = require('fs');
const postgres = require('postgres');

async function suite(sql) {
    const disks = await sql`SELECT disk_number, name, free_mb / 2 AS half FROM v$asm_disk WHERE group_number = ${1} AND name LIKE ${'DATA%'} ORDER BY 1`;
    assert.deepStrictEqual(disks.map((row) => [row.disk_number, row.name]), [['0', 'DATA_0000'], ['1', 'DATA_0001']]);
    assert.strictEqual(typeof disks[0].half, 'number');
    const truths = await sql`SELECT typname, typbyval, typinput FROM pg_type WHERE typname IN ('int8', 'text') ORDER BY oid`;
    assert.deepStrictEqual(truths.map((row) => Object.values(row)), [['int8', true, 'int8in'], ['text', false, 'textin']]);
    const some = await sql`SELECT count(*) AS n FROM v$asm_disk WHERE name = ANY(${['DATA_0000', 'x, y']})`;
    assert.strictEqual(some[0].n, '1');
    const times = await sql`SELECT create_date FROM v$asm_disk WHERE create_date <= ${new Date()} ORDER BY 1`;
    assert(times.length === 2 && times[0].create_date instanceof Date);
    await assert.rejects(sql`SELECT * FROM v$asm_nothing`, (error) => error.code === '42P01' && error.position === '15');
}

(async () => {
    const ssl = { ca: fs.readFileSync(process.env.ROOT, 'utf8'), servername: 'localhost' };
    const local = { path: `${process.env.SOCKETS}/.s.PGSQL.5432`, username: 'root', database: 'plinth' };
    const network = { host: '127.0.0.1', port: Number(process.env.PORT), username: 'boss', password: 'secret', database: 'plinth', ssl };
    for (const where of [local, network]) {
        const sql = postgres({ ...where, max: 2 });
        await suite(sql);
        await sql.end();
    }
    console.log('fine');
})().catch((error) => {
    console.error(error);
    process.exit(1);
});
