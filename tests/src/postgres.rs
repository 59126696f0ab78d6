//! A PostgreSQL cluster in a directory, run by a user who is not root.

use crate::{Finished, Shell, shell, wait_for};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime},
};

/// A cluster. Dropped, it is stopped the quick way.
pub struct Postgres {
    data: PathBuf,
    home: tempfile::TempDir,
    user: &'static str,
}

/// The figures that pgbench prints at its end.
#[derive(Debug, Clone)]
pub struct Bench {
    pub transactions: u64,
    pub failed: u64,
    /// The slowest transaction, in milliseconds.
    pub slowest_ms: u64,
    pub report: String,
    pub log: Vec<Transaction>,
}

/// A line of pgbench's log.
#[derive(Debug, Clone, Copy)]
pub struct Transaction {
    pub ended: SystemTime,
    pub took: Duration,
}

/// A pgbench that runs.
pub struct Running {
    child: Child,
    home: PathBuf,
    stamp: String,
}

/// Finds the newest PostgreSQL's programs, wherever the distribution has them.
const PROGRAMS: &str =
    r#"PATH="$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1):$PATH"; "#;

impl Postgres {
    /// Makes a cluster with page checksums in `mount`/`name` and starts it.
    ///
    /// # Panics
    /// If PostgreSQL fails.
    #[must_use]
    pub fn new(mount: &Path, name: &str) -> Self {
        let data = mount.join(name);
        fs::create_dir(&data).unwrap_or_else(|error| panic!("{}: {error}", data.display()));
        let cluster = Self::at(data);
        shell(r#"chown "$1" "$2"; chmod 700 "$2""#).arg(cluster.user).arg(&cluster.data).ok();
        cluster
            .run(
                r#"initdb -D "$DATA" -A trust -U postgres --data-checksums --no-locale >/dev/null"#,
            )
            .ok();
        let settings = "listen_addresses = ''\nshared_buffers = 64MB\nmax_wal_size = 256MB\n\
                        checkpoint_timeout = 30s\nmax_connections = 40\n";
        cluster.run(&format!("cat >> \"$DATA/postgresql.conf\" <<'END'\n{settings}END")).ok();
        cluster.start();
        cluster
    }

    /// Starts the cluster that is in `mount`/`name` already.
    ///
    /// # Panics
    /// If it does not come up.
    #[must_use]
    #[track_caller]
    pub fn existing(mount: &Path, name: &str) -> Self {
        let cluster = Self::at(mount.join(name));
        cluster.start();
        cluster
    }

    fn at(data: PathBuf) -> Self {
        crate::need_root();
        let home = tempfile::Builder::new().prefix("plinth-pg.").tempdir().expect("directory");
        let user =
            if shell("id postgres").finish().code == Some(0) { "postgres" } else { "nobody" };
        shell(r#"chown "$1" "$2""#).arg(user).arg(home.path()).ok();
        Self { data, home, user }
    }

    /// A script run as the cluster's user, with PostgreSQL's programs in its path.
    fn run(&self, script: &str) -> Shell {
        let inner = format!(
            "export DATA='{data}' PGHOST='{home}' PGUSER=postgres PGDATABASE=postgres HOME='{home}'; cd '{home}'; \
             {PROGRAMS}{script}",
            data = self.data.display(),
            home = self.home.path().display(),
        );
        shell(r#"exec runuser -u "$1" -- bash -euo pipefail -c "$2""#).arg(self.user).arg(inner)
    }

    /// # Panics
    /// If it does not come up.
    #[track_caller]
    pub fn start(&self) {
        // A crash may leave a pid file that would be taken for a running cluster if another process
        // has the number by now. And settings that were lost with the power would make it listen
        // where others do.
        self.run(
            r#"rm -f "$DATA/postmaster.pid" "$PGHOST"/.s.*
               pg_ctl -D "$DATA" -w -t 120 -l "$PGHOST/log" -o "-k $PGHOST -h ''" start >/dev/null || { tail -20 "$PGHOST/log"; false; }
               head -1 "$DATA/postmaster.pid" > "$PGHOST/pid""#,
        )
        .ok();
    }

    /// # Panics
    /// If it does not stop.
    #[track_caller]
    pub fn stop(&self) {
        self.run(r#"pg_ctl -D "$DATA" -m fast -w -t 120 stop >/dev/null"#).ok();
    }

    /// `kill -9` to every process of the cluster that is still there: its storage may have gone
    /// before it.
    ///
    /// # Panics
    /// If they do not end.
    #[track_caller]
    pub fn crash(&self) {
        self.run(
            r#"main=$(cat "$PGHOST/pid"); kill -STOP $main 2>/dev/null || true
               all="$main $(pgrep -P $main || true)"; kill -9 $all 2>/dev/null || true
               for pid in $all; do
                   while [ -d /proc/$pid ] && ! grep -q '^State:.Z' /proc/$pid/status 2>/dev/null; do sleep 0.05; done
               done"#,
        )
        .ok();
    }

    /// The answer to a query.
    ///
    /// # Panics
    /// If it fails.
    #[track_caller]
    pub fn psql(&self, sql: &str) -> String {
        self.try_psql(sql).ok().trim().to_owned()
    }

    /// Runs statements one after the other in one session; each is to return one line, which
    /// `answered` is called with when the statement has ended.
    ///
    /// # Panics
    /// If one fails.
    pub fn session(
        &self,
        statements: impl Iterator<Item = String>,
        answered: &mut dyn FnMut(&str),
    ) {
        let mut command = self.run("exec psql -X -qAt -v ON_ERROR_STOP=1").into_command();
        let mut psql = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql");
        let mut input = psql.stdin.take().expect("piped");
        let mut output = BufReader::new(psql.stdout.take().expect("piped")).lines();
        for statement in statements {
            writeln!(input, "{statement};").expect("psql listens");
            let line = output.next().and_then(Result::ok);
            answered(&line.unwrap_or_else(|| panic!("no answer to {statement}")));
        }
        drop(input);
        assert!(psql.wait().is_ok_and(|status| status.success()), "psql failed");
    }

    pub fn try_psql(&self, sql: &str) -> Finished {
        self.run(r#"psql -X -qAt -v ON_ERROR_STOP=1 -c "$SQL""#).env("SQL", sql).finish()
    }

    /// pgbench's tables.
    ///
    /// # Panics
    /// If they cannot be made.
    #[track_caller]
    pub fn fill(&self, scale: u32) {
        self.run(&format!(
            "pgbench -iq -s {scale} 2>&1; psql -qc 'CREATE EXTENSION IF NOT EXISTS amcheck'"
        ))
        .ok();
    }

    /// Starts pgbench and returns at once.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn bench(&self, clients: u32, seconds: u32) -> Running {
        let stamp = format!("bench.{}", fs::read_dir(self.home.path()).map_or(0, Iterator::count));
        let script = format!(
            "{PROGRAMS} cd '{home}'; exec runuser -u {user} -- env PATH=\"$PATH\" PGHOST='{home}' PGUSER=postgres \
             pgbench -n -c {clients} -j 2 -T {seconds} -l --log-prefix={stamp} postgres > {stamp}.report 2>&1",
            home = self.home.path().display(),
            user = self.user,
        );
        let child = Command::new("bash")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("pgbench: {error}"));
        Running { child, home: self.home.path().to_owned(), stamp }
    }

    /// Balances agree, and PostgreSQL's own check finds every table and index sound.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn verify(&self) {
        let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(bbalance) FROM pgbench_branches) \
                    AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches) \
                    AND (SELECT coalesce(sum(delta), 0) FROM pgbench_history) = (SELECT sum(bbalance) FROM pgbench_branches)";
        assert_eq!(self.psql(sums), "t", "the balances of pgbench's tables differ");
        self.amcheck();
    }

    /// PostgreSQL's own check finds every table and index sound.
    ///
    /// # Panics
    /// If not.
    #[track_caller]
    pub fn amcheck(&self) {
        self.run("pg_amcheck --heapallindexed --rootdescend -j 2 postgres").ok();
    }

    /// Stops the cluster and verifies the checksum of every page.
    ///
    /// # Panics
    /// If one is wrong.
    #[track_caller]
    pub fn stop_and_verify_pages(&self) {
        self.stop();
        self.run(r#"pg_checksums --check -D "$DATA""#).ok();
    }
}

impl Running {
    /// Waits for its end.
    ///
    /// # Panics
    /// If pgbench itself could not run.
    #[track_caller]
    pub fn finish(mut self) -> Bench {
        let _ = self.child.wait();
        let report = fs::read_to_string(self.home.join(format!("{}.report", self.stamp)))
            .unwrap_or_default();
        let after = |label: &str| -> Option<u64> {
            let line = report.lines().find(|line| line.starts_with(label))?;
            let rest = line[label.len()..].trim();
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        let log: Vec<Transaction> = fs::read_dir(&self.home)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| {
                entry.file_name().to_string_lossy().starts_with(&format!("{}.", self.stamp))
            })
            .filter(|entry| !entry.file_name().to_string_lossy().ends_with(".report"))
            .flat_map(|entry| {
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                text.lines().filter_map(transaction).collect::<Vec<_>>()
            })
            .collect();
        let slowest = log.iter().map(|transaction| transaction.took).max().unwrap_or_default();
        Bench {
            transactions: after("number of transactions actually processed:").unwrap_or(0),
            failed: after("number of failed transactions:").unwrap_or(u64::MAX),
            slowest_ms: u64::try_from(slowest.as_millis()).unwrap_or(u64::MAX),
            report,
            log,
        }
    }
}

/// The fields of a line: client, number, microseconds that it took, script, seconds and
/// microseconds of its end.
fn transaction(line: &str) -> Option<Transaction> {
    let mut fields = line.split(' ').map(|field| field.parse::<u64>().ok());
    let took = fields.nth(2)??;
    let (seconds, micros) = (fields.nth(1)??, fields.next()??);
    let ended =
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds) + Duration::from_micros(micros);
    Some(Transaction { ended, took: Duration::from_micros(took) })
}

impl Bench {
    /// No transaction failed, no client was thrown out.
    ///
    /// # Panics
    /// If one was.
    #[track_caller]
    pub fn must_not_have_noticed(&self) {
        assert!(
            self.failed == 0 && self.transactions > 0 && !self.report.contains("aborted"),
            "pgbench noticed:\n{}",
            self.report
        );
    }

    /// The longest transaction of those that ran in some of the time between two moments.
    #[must_use]
    pub fn longest_between(&self, from: SystemTime, until: SystemTime) -> Duration {
        let touches = |transaction: &&Transaction| {
            transaction.ended >= from
                && transaction
                    .ended
                    .checked_sub(transaction.took)
                    .is_some_and(|began| began <= until)
        };
        self.log
            .iter()
            .filter(touches)
            .map(|transaction| transaction.took)
            .max()
            .unwrap_or_default()
    }

    /// Prints the longest time of transactions: of all, and of those that ran during the events of
    /// each kind.
    pub fn tell_stalls<'a>(
        &self,
        moments: impl IntoIterator<Item = (&'a str, SystemTime, SystemTime)>,
    ) {
        let mut kinds = BTreeMap::<_, Vec<_>>::new();
        for (kind, from, until) in moments {
            kinds.entry(kind).or_default().push(self.longest_between(from, until));
        }
        println!("{} transactions, the longest {} ms", self.transactions, self.slowest_ms);
        for (kind, mut stalls) in kinds {
            stalls.sort_unstable();
            let (median, longest) = (stalls[stalls.len() / 2], stalls[stalls.len() - 1]);
            println!(
                "{kind}, {} times: longest transaction {longest:.0?}, in the median {median:.0?}",
                stalls.len()
            );
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = self
            .run(r#"pg_ctl -D "$DATA" -m immediate -w -t 10 stop"#)
            .finish_within(Duration::from_secs(30));
        if std::thread::panicking() {
            let log = fs::read_to_string(self.home.path().join("log")).unwrap_or_default();
            let tail: Vec<_> = log.lines().rev().take(15).collect();
            eprintln!("--- PostgreSQL\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
        // A cluster whose storage is gone does not stop in good order.
        let _ = shell(r#"for pid in $(pgrep -f -- "-k $1" || true); do kill -9 $pid; done"#)
            .arg(self.home.path())
            .finish();
        if std::thread::panicking() {
            return;
        }
        wait_for("the cluster to end", || {
            shell(r#"! pgrep -f -- "-k $1" >/dev/null"#).arg(self.home.path()).finish().code
                == Some(0)
        });
    }
}
