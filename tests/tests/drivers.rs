//! Drivers of other languages, each with its own small suite in that language: `tests/drivers`.
//!
//! Where the driver can, over the unix socket; over TCP with SCRAM and TLS, the certificate
//! verified, all of them. `./test` installs what they need.

use plinth_tests::{Instance, MIB, shell};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio_postgres::{NoTls, SimpleQueryMessage, config::SslMode, error::SqlState, types::Type};
use tokio_postgres_rustls::MakeRustlsConnect;

/// A group of two disks, and TLS.
fn instance() -> (Instance, u16) {
    let mut instance = Instance::new();
    instance.create_group("data", "NORMAL", &[&[256 * MIB], &[256 * MIB]], "");
    let port = instance.listen_with_tls();
    (instance, port)
}

/// Runs a suite, which ends with one word.
fn suite(script: &str, program: &str) {
    let (instance, port) = instance();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers").join(program);
    let said = shell(script)
        .arg(file)
        .env("SOCKETS", instance.dir())
        .env("PORT", port.to_string())
        .env("ROOT", instance.path("root.pem"))
        .finish();
    assert!(said.out.trim_end().ends_with("fine"), "{said}");
}

#[test]
fn psycopg() {
    suite(r#"exec /usr/bin/python3 "$1""#, "suite.py");
}

/// Where ./test puts the drivers that no package of Debian has.
fn drivers() -> PathBuf {
    plinth_tests::binary().ancestors().nth(2).expect("target/debug/plinth").join("drivers")
}

/// A driver for node: Debian's package, or the one that ./test got from npm.
fn node(program: &str) {
    let paths = format!("{}:/usr/share/nodejs", drivers().join("node_modules").display());
    suite(&format!(r#"NODE_PATH="{paths}" exec node "$1""#), program);
}

#[test]
fn node_postgres() {
    node("suite.js");
}

#[test]
fn postgres_js() {
    node("postgres.js");
}

#[test]
fn asyncpg_psycopg2_and_sqlalchemy() {
    suite(r#"exec /usr/bin/python3 "$1""#, "orms.py");
}

#[test]
fn pg8000() {
    let path = drivers().join("python");
    let script = format!(r#"PYTHONPATH="{}" exec /usr/bin/python3 "$1""#, path.display());
    suite(&script, "pure.py");
}

/// pgx, with the modules that ./test fetched: nothing is fetched here.
#[test]
fn pgx() {
    let go = drivers().join("go");
    let script = format!(
        r#"cd "$(dirname "$1")"
        export GOPATH="{go}" GOMODCACHE="{go}/mod" GOCACHE="{go}/cache" GOPROXY=off
        export GOTOOLCHAIN=local CGO_ENABLED=0 GOFLAGS="-mod=readonly -modcacherw"
        exec go run ."#,
        go = go.display()
    );
    suite(&script, "pgx/main.go");
}

#[test]
fn jdbc() {
    suite(r#"exec java -cp /usr/share/java/postgresql.jar "$1""#, "Suite.java");
}

/// tokio-postgres: statements are prepared, values binary, types those that the server reports.
#[test]
fn tokio_postgres() {
    let (instance, port) = instance();
    let root = CertificateDer::from_pem_file(instance.path("root.pem")).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(root).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut local = tokio_postgres::Config::new();
        local.host_path(instance.dir()).user("root").dbname("plinth");
        let (client, connection) = local.connect(NoTls).await.expect("connected");
        let talking = tokio::spawn(connection);
        use_it(&client, async || client.cancel_token().cancel_query(NoTls).await).await;
        drop(client);
        talking.await.expect("no panic").expect("a good end");

        let tls = MakeRustlsConnect::new(tls);
        let mut remote = tokio_postgres::Config::new();
        remote
            .host("localhost")
            .hostaddr([127, 0, 0, 1].into())
            .port(port)
            .user("boss")
            .password("secret")
            .application_name("suite");
        // The exchange is bound to the certificate: SCRAM-SHA-256-PLUS.
        remote
            .ssl_mode(SslMode::Require)
            .channel_binding(tokio_postgres::config::ChannelBinding::Require);
        let (client, connection) = remote.connect(tls.clone()).await.expect("connected");
        let talking = tokio::spawn(connection);
        use_it(&client, async || client.cancel_token().cancel_query(tls.clone()).await).await;
        // The session of a client of the network, as others see it and as it sees itself.
        let own = "SELECT username, osuser, machine, module, role, sys_context('USERENV', 'IP_ADDRESS') \
                   FROM v$session WHERE sid = sys_context('USERENV', 'SID')";
        let own = client.query_one(own, &[]).await.expect("its session");
        let texts: Vec<Option<&str>> = (0..own.len()).map(|at| own.get(at)).collect();
        let expected = ["BOSS", "", "127.0.0.1", "suite", "ADMINISTER", "127.0.0.1"];
        assert_eq!(texts, expected.map(|text| Some(text).filter(|text| !text.is_empty())));
        drop(client);
        talking.await.expect("no panic").expect("a good end");

        for (user, password) in [("boss", "wrong"), ("nobody", "secret")] {
            remote.user(user).password(password);
            let error = remote.connect(tls.clone()).await.err().expect("not let in");
            assert_eq!(error.code(), Some(&SqlState::INVALID_PASSWORD), "{error}");
        }
    });
}

async fn use_it<F>(client: &tokio_postgres::Client, cancel: impl Fn() -> F)
where
    F: Future<Output = Result<(), tokio_postgres::Error>>,
{
    let statement = client
        .prepare("SELECT disk_number, name, free_mb / 2, count(*) OVER () FROM v$asm_disk WHERE group_number = $1 AND name LIKE $2 ORDER BY 1 LIMIT $3")
        .await
        .expect("prepared");
    assert_eq!(statement.params(), [Type::INT8, Type::TEXT, Type::INT8]);
    let types: Vec<_> = statement.columns().iter().map(|column| column.type_().clone()).collect();
    assert_eq!(types, [Type::INT8, Type::TEXT, Type::FLOAT8, Type::INT8]);
    for limit in [1_i64, 2, 9] {
        let rows = client.query(&statement, &[&1_i64, &"DATA%", &limit]).await.expect("rows");
        assert_eq!(rows.len() as i64, limit.min(2));
        assert_eq!((rows[0].get::<_, i64>(0), rows[0].get::<_, &str>(1)), (0, "DATA_0000"));
        assert!(rows[0].get::<_, f64>(2) > 1.0 && rows[0].get::<_, i64>(3) == 2);
    }
    let row = client
        .query_one(
            "SELECT $1::int8, $2::text, $3::float8, sum(total_mb), avg(total_mb), max(name) FROM v$asm_disk",
            &[&None::<i64>, &"grün", &0.5],
        )
        .await
        .expect("a row");
    assert_eq!(
        (row.get::<_, Option<i64>>(0), row.get::<_, &str>(1), row.get::<_, f64>(2)),
        (None, "grün", 0.5)
    );
    assert!(
        row.get::<_, i64>(3) > 0
            && row.get::<_, f64>(4) > 0.0
            && row.get::<_, &str>(5) == "DATA_0001"
    );

    let now = SystemTime::now();
    let statement = client
        .prepare("SELECT max(create_date), sysdate, NULL::timestamp, serial# FROM v$asm_disk, v$session WHERE create_date <= $1")
        .await
        .expect("prepared");
    assert_eq!(statement.params(), [Type::TIMESTAMP]);
    let types: Vec<_> = statement.columns().iter().map(|column| column.type_().clone()).collect();
    assert_eq!(types, [Type::TIMESTAMP, Type::TIMESTAMP, Type::TIMESTAMP, Type::INT8]);
    let row = client.query_one(&statement, &[&now]).await.expect("a row");
    let (joined, at) = (row.get::<_, SystemTime>(0), row.get::<_, SystemTime>(1));
    assert!(joined <= now && at + Duration::from_secs(1) >= now, "{joined:?} {at:?} {now:?}");
    assert_eq!(row.get::<_, Option<SystemTime>>(2), None);
    // This driver asks once what a statement's columns are.
    for (setting, state) in [
        ("ALTER SESSION SET nls_date_format = 'DD-MON-RR'", Some(SqlState::FEATURE_NOT_SUPPORTED)),
        ("SELECT 1", Some(SqlState::FEATURE_NOT_SUPPORTED)),
        ("RESET nls_date_format", None),
    ] {
        client.batch_execute(setting).await.expect("set");
        let asked = client.query(&statement, &[&now]).await;
        assert_eq!(
            asked.as_ref().err().and_then(|error| error.code()),
            state.as_ref(),
            "{setting}"
        );
    }

    let error = client.query("SELECT * FROM v$asm_nothing", &[]).await.expect_err("refused");
    let error = error.as_db_error().expect("the server's");
    assert_eq!(error.code(), &SqlState::UNDEFINED_TABLE);
    assert_eq!(error.position(), Some(&tokio_postgres::error::ErrorPosition::Original(15)));
    assert!(error.detail().is_some_and(|detail| detail.contains("ORA-00942")), "{error:?}");
    let error = client
        .batch_execute("SELECT 1; SELECT missing FROM v$asm_disk")
        .await
        .expect_err("refused");
    assert_eq!(error.code(), Some(&SqlState::UNDEFINED_COLUMN));

    let (cancelled, ()) = tokio::join!(
        client.query("WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r", &[]),
        async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            cancel().await.expect("sent");
        }
    );
    assert_eq!(cancelled.expect_err("cancelled").code(), Some(&SqlState::QUERY_CANCELED));
    // A statement that changes something is cancelled, and its work goes on.
    let tag =
        client.simple_query("ALTER DISKGROUP data REBALANCE POWER 4 WAIT").await.expect("done");
    assert!(matches!(tag.as_slice(), [SimpleQueryMessage::CommandComplete(0)]), "{tag:?}");
}
