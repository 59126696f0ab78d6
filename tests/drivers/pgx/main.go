// pgx against an instance: what people's programs do, checked by value and type.
//
// The environment says where: SOCKETS (a directory), PORT, ROOT (the authority's certificate).
// Plain pgx, its pool, and database/sql over it; with statements that are prepared and kept (the
// default: values are binary), and with each of the other ways in which it can send a query.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
)

const endless = "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r"

var ctx = context.Background()

func check(holds bool, what ...interface{}) {
	if !holds {
		panic(fmt.Sprintln(what...))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func refused(state string, err error) *pgconn.PgError {
	var told *pgconn.PgError
	check(errors.As(err, &told), state, "was not refused:", err)
	check(told.Code == state, state, told.Code, told.Message)
	return told
}

func local() string {
	return fmt.Sprintf("host=%s user=root dbname=plinth", os.Getenv("SOCKETS"))
}

func network(user, password string) string {
	return fmt.Sprintf("host=localhost port=%s user=%s password=%s dbname=plinth sslmode=verify-full sslrootcert=%s",
		os.Getenv("PORT"), user, password, os.Getenv("ROOT"))
}

func connect(where string, mode pgx.QueryExecMode) *pgx.Conn {
	config, err := pgx.ParseConfig(where)
	must(err)
	config.DefaultQueryExecMode = mode
	connection, err := pgx.ConnectConfig(ctx, config)
	must(err)
	return connection
}

func queries(connection *pgx.Conn) {
	const disks = "SELECT disk_number, name, free_mb / 2 AS half FROM v$asm_disk WHERE group_number = $1 AND name LIKE $2 ORDER BY 1"
	for round := 0; round < 3; round++ {
		rows, err := connection.Query(ctx, disks, 1, "DATA%")
		must(err)
		var types []uint32
		for _, field := range rows.FieldDescriptions() {
			types = append(types, field.DataTypeOID)
		}
		check(fmt.Sprint(types) == "[20 25 701]", types)
		count := 0
		for rows.Next() {
			var number int64
			var name string
			var half float64
			must(rows.Scan(&number, &name, &half))
			check(number == int64(count) && name == fmt.Sprintf("DATA_%04d", count) && half > 1, number, name, half)
			count++
		}
		must(rows.Err())
		check(count == 2, count)
	}
	var none *int64
	var text string
	var real float64
	var big int64
	row := connection.QueryRow(ctx, "SELECT $1::int8, $2::text, $3::float8, $4::int8", nil, "grün 'x' \\", 0.5, int64(1)<<40)
	must(row.Scan(&none, &text, &real, &big))
	check(none == nil && text == "grün 'x' \\" && real == 0.5 && big == 1<<40, none, text, real, big)

	at := time.Date(2026, 3, 7, 15, 4, 9, 250_000_000, time.UTC)
	var created, now, same time.Time
	var unset *time.Time
	row = connection.QueryRow(ctx,
		"SELECT create_date, sysdate, $1::timestamp, NULL::timestamp FROM v$asm_disk WHERE create_date <= $2 AND disk_number = 0",
		at, time.Now().UTC())
	must(row.Scan(&created, &now, &same, &unset))
	check(!created.After(now) && same.Equal(at) && unset == nil, created, now, same, unset)

	var count int64
	must(connection.QueryRow(ctx, "SELECT count(*) FROM v$asm_disk WHERE name = ANY($1)", []string{"DATA_0000", "x, y"}).Scan(&count))
	check(count == 1, count)
	var values []interface{}
	rows, err := connection.Query(ctx, "SELECT total_mb, avg(total_mb), max(name), max(create_date), NULL AS a FROM v$asm_disk GROUP BY total_mb")
	must(err)
	for rows.Next() {
		values, err = rows.Values()
		must(err)
	}
	must(rows.Err())
	kinds := fmt.Sprintf("%T %T %T %T %T", values[0], values[1], values[2], values[3], values[4])
	check(kinds == "int64 float64 string time.Time <nil>", kinds)
}

func failures(connection *pgx.Conn) {
	exec := func(text string, arguments ...interface{}) error {
		_, err := connection.Exec(ctx, text, arguments...)
		return err
	}
	missing := refused("42P01", exec("SELECT * FROM v$asm_nothing"))
	check(missing.Position == 15 && strings.Contains(missing.Detail, "ORA-00942"), missing.Position, missing.Detail)
	refused("42P01", exec("SELECT * FROM v$asm_nothing WHERE name = $1", "x"))
	refused("42703", exec("SELECT missing FROM v$asm_disk"))
	refused("0A000", exec("DELETE FROM v$asm_disk"))
	refused("55000", exec("ALTER DISKGROUP nix REBALANCE"))
	var one int64
	must(connection.QueryRow(ctx, "SELECT 1").Scan(&one))
	check(one == 1, one)
}

func administering(connection *pgx.Conn, told *[]string) {
	tag, err := connection.Exec(ctx, "ALTER DISKGROUP data CHECK")
	must(err)
	check(tag.String() == "ALTER DISKGROUP", tag)
	check(strings.Contains(strings.Join(*told, "\n"), "0 left"), *told)
	transaction, err := connection.Begin(ctx)
	must(err)
	_, err = transaction.Exec(ctx, "ALTER DISKGROUP data REBALANCE")
	refused("25001", err)
	must(transaction.Rollback(ctx))

	// Cancelled by the key of the connection, over another one.
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(300 * time.Millisecond)
		must(connection.PgConn().CancelRequest(ctx))
	}()
	cancelled := refused("57014", connection.QueryRow(ctx, endless).Scan(new(int64)))
	check(strings.Contains(cancelled.Detail, "ORA-01013"), cancelled.Detail)
	<-done
}

func batches(connection *pgx.Conn) {
	batch := &pgx.Batch{}
	for number := 0; number < 3; number++ {
		batch.Queue("SELECT count(*) FROM v$asm_disk WHERE disk_number = $1", number)
	}
	results := connection.SendBatch(ctx, batch)
	for number := 0; number < 3; number++ {
		var count int64
		must(results.QueryRow().Scan(&count))
		check((count == 1) == (number < 2), number, count)
	}
	must(results.Close())
	// One that is refused ends its batch, and no more.
	batch = &pgx.Batch{}
	batch.Queue("SELECT missing FROM v$asm_disk")
	batch.Queue("SELECT 1")
	refused("42703", connection.SendBatch(ctx, batch).Close())
	must(connection.Ping(ctx))
	rows, err := connection.Query(ctx, "SELECT name FROM v$asm_disk ORDER BY 1")
	must(err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(err)
	check(fmt.Sprint(names) == "[DATA_0000 DATA_0001]", names)
}

// pools: many users of few connections, and database/sql.
func pools(where string) {
	pool, err := pgxpool.New(ctx, where+" pool_max_conns=3")
	must(err)
	results := make(chan error)
	for user := 0; user < 9; user++ {
		go func() {
			var count int64
			err := pool.QueryRow(ctx, "SELECT count(*) FROM v$asm_disk").Scan(&count)
			if err == nil && count != 2 {
				err = fmt.Errorf("%d disks", count)
			}
			results <- err
		}()
	}
	for user := 0; user < 9; user++ {
		must(<-results)
	}
	pool.Close()

	database, err := sql.Open("pgx", where)
	must(err)
	statement, err := database.Prepare("SELECT name, create_date, total_mb FROM v$asm_disk WHERE disk_number = $1")
	must(err)
	var name sql.NullString
	var created time.Time
	var size int64
	must(statement.QueryRow(1).Scan(&name, &created, &size))
	check(name.Valid && name.String == "DATA_0001" && created.Year() > 2020 && size > 0, name, created, size)
	_, err = database.Exec("ALTER DISKGROUP nix REBALANCE")
	refused("55000", err)
	must(database.Ping())
	must(database.Close())
}

func main() {
	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	}
	for _, where := range []string{local(), network("boss", "secret")} {
		for _, mode := range modes {
			connection := connect(where, mode)
			queries(connection)
			failures(connection)
			must(connection.Close(ctx))
		}
		config, err := pgx.ParseConfig(where)
		must(err)
		var told []string
		config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { told = append(told, notice.Message) }
		connection, err := pgx.ConnectConfig(ctx, config)
		must(err)
		administering(connection, &told)
		batches(connection)
		failures(connection)
		must(connection.Close(ctx))
		pools(where)
	}
	for _, wrong := range [][2]string{{"boss", "wrong"}, {"nobody", "secret"}} {
		_, err := pgx.Connect(ctx, network(wrong[0], wrong[1]))
		refused("28P01", err)
	}
	viewer, err := pgx.Connect(ctx, network("viewer", "secret"))
	must(err)
	_, err = viewer.Exec(ctx, "ALTER DISKGROUP data DISMOUNT")
	refused("42501", err)
	must(viewer.Close(ctx))
	fmt.Println("fine")
}
