//! Carries out one statement: the part that PostgreSQL's socket and the control socket have in
//! common.

mod access;
mod alter;
mod facts;
mod filter;
mod health;
mod parameters;
mod reclaim;
mod scrub;
mod work;

use self::alter::InText;
use super::{
    Instance,
    sessions::{Place, Protocol, Session},
};
use crate::{
    engine::client::Client,
    process::Peer,
    query::{
        self, Cancel, Column, Described, Estimated, Source, Table,
        formats::Formats,
        scheduling::Budget,
        settings::{self, Settings},
        userenv,
        views::{Type, View},
    },
    sql::{
        LabelOrder, Query, Role, Statement,
        parser::parse_size,
        rules::{self, Choice},
        statement::{At, Groups, Places},
        variables,
    },
    sql_error::{SqlError, state},
    users,
};
use plinth_engine::{
    admin::{
        AdminError, Code, Command, HeaderStatus, NewGroup, OperationPass, OperationState, Report,
        Survey, Value,
    },
    disk::identify::LABEL_PATH,
    words::counted,
};
use plinth_host::{lock, pattern_of};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

type Result<T> = std::result::Result<T, SqlError>;

/// A statement that waits for an operation ends with an error when more than this many engines in a
/// row die while it asks them for the operation's state.
const DEATHS: u32 = 3;
/// Most problems of a CHECK that a statement lists; the others are only counted.
const PROBLEMS_SHOWN: usize = 50;

/// The client of a statement.
#[derive(Clone)]
pub struct Context {
    pub instance: Arc<Instance>,
    pub access: Role,
    /// The client's name.
    pub who: String,
    /// The process at the other end of the unix socket; over the network, no user of this host.
    pub peer: Peer,
    /// Whether the client has logged in with a password; then its role is looked up for each
    /// statement.
    pub with_password: bool,
    /// The client's session, while there is a context of it.
    pub session: Arc<Session>,
    /// The parameters that the client has `SET`.
    pub settings: Arc<Mutex<Settings>>,
    /// Whose rules its queries follow, unless it has set [`rules::SETTING`].
    pub sql_rules: Choice,
    /// How much processor time its queries may take.
    pub budget: Budget,
    /// Whether a statement that drops disks returns only when they can be pulled, unless it says
    /// NOWAIT.
    pub waits_for_drops: bool,
}

/// The result of a statement, and its notices.
#[derive(Debug)]
pub struct Reply {
    pub notices: Vec<Notice>,
    pub result: Result<Outcome>,
}

/// A message to the client beside the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub warning: bool,
    pub text: String,
}

#[derive(Debug)]
pub enum Outcome {
    Rows(Table),
    Done,
}

/// Carries out one statement. `parameters` are those of a query.
#[must_use]
pub fn execute(
    context: &Context,
    statement: &Statement,
    parameters: &[Value],
    cancel: &Cancel,
) -> Reply {
    let _running = context.session.run(statement.tag());
    let mut notices = Vec::new();
    let result = context.carry_out(statement, parameters, cancel, &mut notices);
    if result.is_ok() {
        context.protect_members(statement, &mut notices);
    }
    Reply { notices, result }
}

/// The columns of a statement's result, before it runs; `None`: it has no rows.
///
/// # Errors
/// If it is a query that cannot be prepared.
pub fn describe(
    context: &Context,
    statement: &Statement,
    cancel: &Cancel,
) -> Result<Option<Described>> {
    match statement {
        Statement::Query(query) => query::describe(context, query, cancel)
            .map(|described| Some(context.shown(described)))
            .map_err(|refusal| shifted(refusal, query.at)),
        Statement::Show(name) => {
            Ok(Some(Described { parameters: 0, columns: vec![text_column(&name.value)] }))
        }
        Statement::ShowAll => Ok(Some(Described {
            parameters: 0,
            columns: ["name", "setting"].map(text_column).to_vec(),
        })),
        Statement::ShowParameter { stored, .. } => {
            Ok(Some(Described { parameters: 0, columns: parameters::parameter_columns(*stored) }))
        }
        Statement::ExplainWork { alter, .. } => {
            let is_reclaim = matches!(alter.command, Command::Reclaimable(_));
            let columns = if is_reclaim { reclaim::columns() } else { work::columns() };
            Ok(Some(Described { parameters: 0, columns }))
        }
        _ => Ok(None),
    }
}

fn text_column(name: &str) -> Column {
    Column { name: name.to_owned(), kind: Type::Text }
}

/// Moves a refusal's position from one in the query to one in the whole text.
fn shifted(mut refusal: SqlError, by: usize) -> SqlError {
    refusal.at = refusal.at.map(|at| at + by);
    refusal
}

fn note(text: String) -> Notice {
    Notice { warning: false, text }
}

impl Context {
    /// The context of a process on this host, on the thread of its connection.
    #[must_use]
    pub fn of_peer(
        instance: &Arc<Instance>,
        access: Role,
        peer: Peer,
        client: (Protocol, &str),
    ) -> Self {
        let who = users::name(peer.uid);
        let here = Place::Here { pid: peer.pid, user: who.clone() };
        let session = instance.sessions.begin((&who, access), here, client);
        Self::begun(instance, access, who, peer, session)
    }

    /// The context of a client that has logged in over the network, on the thread that carries out
    /// its statements.
    #[must_use]
    pub fn of_user(
        instance: &Arc<Instance>,
        access: Role,
        user: &str,
        from: SocketAddr,
        client: (Protocol, &str),
    ) -> Self {
        let session = instance.sessions.begin((user, access), Place::There(from), client);
        let peer = Peer { pid: 0, uid: u32::MAX };
        let who = user.to_lowercase();
        Self { with_password: true, ..Self::begun(instance, access, who, peer, session) }
    }

    /// A context whose session has begun.
    fn begun(
        instance: &Arc<Instance>,
        access: Role,
        who: String,
        peer: Peer,
        session: Arc<Session>,
    ) -> Self {
        Self {
            instance: Arc::clone(instance),
            access,
            who,
            peer,
            with_password: false,
            settings: Arc::clone(&session.settings),
            session,
            sql_rules: Choice::Auto,
            budget: Budget::default(),
            waits_for_drops: false,
        }
    }

    /// How the session writes times now.
    #[must_use]
    pub fn formats(&self) -> Formats {
        Formats::of(&lock(&self.settings))
    }

    /// Columns as the session's client gets them.
    fn shown(&self, mut described: Described) -> Described {
        let formats = self.formats();
        for column in &mut described.columns {
            column.kind = formats.kind(column.kind);
        }
        described
    }

    /// Refuses a statement that the client's present role does not allow.
    fn allowed(&self, statement: &Statement) -> Result<()> {
        let access = if self.with_password {
            self.instance.role(&self.who).ok_or_else(|| {
                SqlError::new(state::PERMISSION, format!("user {} was dropped", self.who))
            })?
        } else {
            self.access
        };
        let needed = statement.needs();
        if access >= needed {
            return Ok(());
        }
        let what = if access == Role::Look {
            "may look, and not administer"
        } else {
            "may operate, and not administer"
        };
        let refusal = SqlError::new(state::PERMISSION, format!("{} {what}", self.who));
        if self.with_password {
            return Err(refusal
                .hint(format!("an administrator can say: ALTER USER {} ROLE {needed}", self.who)));
        }
        let owner = users::name(rustix::process::geteuid().as_raw());
        Err(refusal.hint(format!("root and {owner}, as whom the instance runs, administer")))
    }

    /// `SET`, and `RESET` without a value.
    fn set(&self, name: &str, value: Option<&str>) -> Result<Outcome> {
        if let Some(value) = value.filter(|_| parameters::has_rules(name)) {
            let at = |value: &str| At { value: value.to_owned(), at: 0 };
            self.alter_session(&[(at(name), at(value))]).map_err(|mut refusal| {
                refusal.at = None;
                refusal
            })?;
            return Ok(Outcome::Done);
        }
        let (allowed, is_allowed) = match (name, value) {
            (rules::SETTING, Some(value)) => {
                ("oracle, postgresql and auto", Choice::named(value).is_some())
            }
            (variables::SETTING, Some(value)) => {
                ("on and off", ["on", "off"].iter().any(|one| value.eq_ignore_ascii_case(one)))
            }
            _ => ("", true),
        };
        if !is_allowed {
            let message = format!("{name} cannot be '{}'", value.unwrap_or_default());
            let hint = format!("{allowed} are its values");
            return Err(SqlError::new(state::BAD_VALUE, message).hint(hint));
        }
        lock(&self.settings).set(name, value);
        Ok(Outcome::Done)
    }

    fn carry_out(
        &self,
        statement: &Statement,
        parameters: &[Value],
        cancel: &Cancel,
        notices: &mut Vec<Notice>,
    ) -> Result<Outcome> {
        self.allowed(statement)?;
        let instance = &self.instance;
        match statement {
            Statement::Query(query) => {
                self.query(query, parameters, cancel, notices).map(Outcome::Rows)
            }
            Statement::Show(name) => self.show(name).map(Outcome::Rows),
            Statement::ShowAll => Ok(Outcome::Rows(self.show_all())),
            Statement::Discard => {
                lock(&self.settings).set("", None);
                Ok(Outcome::Done)
            }
            Statement::Ignored(_)
            | Statement::Deallocate(_)
            | Statement::Begin
            | Statement::Commit
            | Statement::Rollback => Ok(Outcome::Done),
            Statement::Set { name, value } => self.set(name, value.as_deref()),
            Statement::AlterSession(settings) => {
                self.alter_session(settings).map(|()| Outcome::Done)
            }
            Statement::ShowParameter { like, stored } => {
                let like = like.as_ref().map(|like| like.value.as_str());
                Ok(Outcome::Rows(self.show_parameters(like, *stored)))
            }
            Statement::CreateUser { name, password, role } => {
                instance.create_user(name, password, *role).map(|()| Outcome::Done)
            }
            Statement::AlterUser { name, password, role } => {
                instance.alter_user(name, password.as_ref(), *role).map(|()| Outcome::Done)
            }
            Statement::DropUser(name) => instance.drop_user(name).map(|()| Outcome::Done),
            Statement::AlterSystem { parameter, value, comment } => {
                let place = value.as_ref().map_or(parameter.at, |value| value.at);
                let value = value.as_ref().map(|value| value.value.as_str());
                instance
                    .set_parameter(parameter.value, value, comment.as_deref())
                    .map_err(|error| SqlError::from(error).at(place))?;
                Ok(Outcome::Done)
            }
            Statement::Filter(change) => self.change_filter(change, notices),
            Statement::AlterLabel(order) => self.alter_label(order, notices),
            Statement::CreateGroup { new, places, at } => self.create(new, places, *at, notices),
            Statement::DropGroup { name, force: true, .. } => {
                let dropped = self.drop_by_force(name)?;
                notices.push(note(format!("disk group {}: {dropped}", name.value)));
                Ok(Outcome::Done)
            }
            Statement::DropGroup { name, force: false, contents } => {
                instance
                    .drop_group(&name.value, *contents)
                    .map_err(|error| SqlError::from(error).or_at(name.at))?;
                Ok(Outcome::Done)
            }
            Statement::Mount { groups, force, restricted } => {
                let named = match groups {
                    Groups::Named(names) => names.clone(),
                    Groups::All => self.dismounted_groups()?,
                };
                each(&named, |group| instance.mount_group(group, *force, *restricted))
            }
            Statement::Dismount { groups, force } => {
                each(&self.mounted_groups(groups), |group| instance.dismount_group(group, *force))
            }
            Statement::Alter(alter) => self.alter(alter, cancel, notices),
            Statement::ExplainWork { id, alter, power } => match &alter.command {
                Command::Reclaimable(which) => self.explain_reclaim(alter, which, notices),
                _ => self.explain(id, alter, *power, notices),
            }
            .map(Outcome::Rows),
        }
    }

    fn alter_label(&self, order: &LabelOrder, notices: &mut Vec<Notice>) -> Result<Outcome> {
        let remarks = self
            .instance
            .alter_label(order, &self.who)
            .map_err(|error| SqlError::from(error).at(order.place()))?;
        notices.extend(remarks.into_iter().map(|text| Notice { warning: true, text }));
        Ok(Outcome::Done)
    }

    fn query(
        &self,
        query: &Query,
        parameters: &[Value],
        cancel: &Cancel,
        notices: &mut Vec<Notice>,
    ) -> Result<Table> {
        let mut warnings = Vec::new();
        let table = query::run(self, query, parameters, cancel, &mut warnings);
        notices.extend(warnings.into_iter().map(|text| Notice { warning: true, text }));
        let table = table.map_err(|refusal| shifted(refusal, query.at))?;
        Ok(self.formats().table(table))
    }

    fn engine(&self, group: &At<String>) -> Result<Client> {
        self.instance
            .engine_in_service(&group.value)
            .map_err(|error| SqlError::from(error).or_at(group.at))
    }

    /// Waits until no operation of a kind runs or is to run. Its error becomes the statement's.
    fn wait_for(&self, group: &At<String>, pass: OperationPass, cancel: &Cancel) -> Result<()> {
        let mut deaths = 0;
        loop {
            let engine = self.instance.engine_in_service(&group.value);
            let operations = match engine.and_then(|engine| engine.operations()) {
                // The engine died while it answered: the next one goes on with the operation.
                Err(error) if error.code == Code::Io && deaths < DEATHS => {
                    deaths += 1;
                    continue;
                }
                asked => asked.map_err(|error| SqlError::from(error).or_at(group.at))?,
            };
            deaths = 0;
            let under_way = operations.iter().any(|operation| {
                operation.pass == pass
                    && (operation.state == OperationState::Run
                        || operation.state == OperationState::Wait)
            });
            if !under_way {
                return match operations
                    .into_iter()
                    .find(|operation| operation.pass == pass)
                    .and_then(|o| o.error)
                {
                    Some(error) => {
                        Err(SqlError::from(AdminError::new(Code::Io, error)).at(group.at))
                    }
                    None => Ok(()),
                };
            }
            if cancel.is_cancelled() {
                let what = match pass {
                    OperationPass::Resync => "the resync",
                    OperationPass::Scrubbing => "the scrub",
                    OperationPass::Reclaim => "the reclaim",
                    _ => "the rebalance",
                };
                return Err(
                    SqlError::canceled().hint(format!("{what} goes on; v$asm_operation shows it"))
                );
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn drop_by_force(&self, name: &At<String>) -> Result<String> {
        let group = &name.value;
        if self
            .instance
            .engine(group)
            .and_then(|engine| engine.status())
            .is_ok_and(|status| status.mounted)
        {
            let text = format!("FORCE is for a disk group that cannot be mounted; {group} is");
            let error = AdminError::new(Code::Invalid, text)
                .hint(format!("DROP DISKGROUP {group} INCLUDING CONTENTS"));
            return Err(SqlError::from(error).at(name.at));
        }
        self.instance
            .drop_unmounted(group)
            .map_err(|error| SqlError::from(error).or_at(name.at))?;
        Ok("its visible disks are FORMER; one that was missing still says that it is a member"
            .to_owned())
    }

    /// The groups that a statement names; for ALL those that are mounted.
    fn mounted_groups(&self, groups: &Groups) -> Vec<At<String>> {
        match groups {
            Groups::Named(names) => names.clone(),
            Groups::All => {
                self.instance.groups().into_keys().map(|value| At { value, at: 0 }).collect()
            }
        }
    }

    fn dismounted_groups(&self) -> Result<Vec<At<String>>> {
        let mounted = self.instance.groups();
        let survey = self.instance.discovery().survey().map_err(SqlError::from)?;
        let members = survey.into_iter().filter(|disk| disk.header == HeaderStatus::Member);
        let names: BTreeSet<String> = members
            .filter_map(|disk| disk.group)
            .filter(|group| !mounted.contains_key(group))
            .collect();
        Ok(names.into_iter().map(|value| At { value, at: 0 }).collect())
    }

    fn create(
        &self,
        new: &NewGroup,
        places: &Places,
        at: usize,
        notices: &mut Vec<Notice>,
    ) -> Result<Outcome> {
        let mut text = InText::new(places, at);
        let (disks, found) = self.find_disks(&new.disks, &mut text)?;
        let mut new = NewGroup { disks, ..new.clone() };
        if let Some(index) = new.attributes.iter().position(|(name, _)| name == "au_size") {
            let (name, value) = new.attributes.remove(index);
            new.au_size = parse_size(&value)
                .filter(|size| size.is_power_of_two() && (1 << 20..=64 << 20).contains(size))
                .ok_or_else(|| {
                    SqlError::new(
                        state::BAD_VALUE,
                        format!("au_size '{value}' is none of 1M, 2M, 4M, ... 64M"),
                    )
                    .at(text.next(&name))
                })?;
        }
        let (name, count) = (new.name.clone(), new.disks.len());
        self.instance.create_group(new).map_err(|error| at_disk(error, &found, at))?;
        notices
            .push(note(format!("disk group {name} has {} and is mounted", counted(count, "disk"))));
        Ok(Outcome::Done)
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = settings::defaults();
        for parameter in self.instance.parameters() {
            settings.insert(parameter.name.to_owned(), parameter.value().unwrap_or_default());
        }
        for (name, value) in [
            ("application_name", self.session.application.clone()),
            // As it was written.
            ("asm_diskstring", self.instance.diskstring()),
            ("afd_diskstring", self.instance.discovery().label_scan()),
            ("is_superuser", if self.access == Role::Administer { "on" } else { "off" }.to_owned()),
            ("plinth.dir", self.instance.paths().dir().display().to_string()),
            (rules::SETTING, self.sql_rules.name().to_owned()),
            (variables::SETTING, "on".to_owned()),
            ("plinth.state", self.instance.paths().state().display().to_string()),
            ("plinth.version", env!("CARGO_PKG_VERSION").to_owned()),
            ("session_authorization", self.who.clone()),
        ] {
            settings.insert(name.to_owned(), value);
        }
        lock(&self.settings).over(settings)
    }

    fn show(&self, name: &At<String>) -> Result<Table> {
        let key = match name.value.as_str() {
            "transaction_isolation_level" => "transaction_isolation",
            "time_zone" => "timezone",
            other => other,
        };
        let Some(value) = self.settings().remove(key) else {
            return Err(SqlError::new(
                state::UNKNOWN_SETTING,
                format!("there is no parameter \"{}\"", name.value),
            )
            .hint("SHOW ALL")
            .at(name.at));
        };
        Ok(Table { columns: vec![text_column(&name.value)], rows: vec![vec![Value::Text(value)]] })
    }

    fn show_all(&self) -> Table {
        let text = Value::Text;
        let settings = self.settings().into_iter();
        let rows = settings.map(|(name, value)| vec![text(name), text(value)]).collect();
        Table { columns: ["name", "setting"].map(text_column).to_vec(), rows }
    }
}

/// A refusal with the position of the disk that it is about: the disk whose path is in the message
/// and in the statement.
fn at_disk(error: AdminError, places: &[(String, usize)], otherwise: usize) -> SqlError {
    let longest = places.iter().filter(|(path, _)| error.message.contains(path.as_str()));
    let place = longest.max_by_key(|(path, _)| path.len()).map_or(otherwise, |(_, at)| *at);
    SqlError::from(error).or_at(place)
}

/// Turns a CHECK's findings into notices, and into an error if problems are left.
///
/// # Errors
/// If a problem was found and not repaired.
fn checked(group: &str, report: &Report, repair: bool, notices: &mut Vec<Notice>) -> Result<()> {
    for problem in report.problems.iter().take(PROBLEMS_SHOWN) {
        let done = if problem.repaired { " (repaired)" } else { "" };
        notices
            .push(Notice { warning: !problem.repaired, text: format!("{}{done}", problem.text) });
    }
    notices.extend(
        report
            .missing
            .iter()
            .map(|text| Notice { warning: true, text: format!("missing mirrors: {text}") }),
    );
    let (found, repaired, left) =
        (report.problems.found(), report.problems.repaired(), report.problems.left());
    let more = found.saturating_sub(PROBLEMS_SHOWN as u64);
    if more > 0 {
        notices.push(note(format!("and {more} more")));
    }
    notices.push(note(format!(
        "disk group {group}: {} checked, {} MiB read, {} repaired, {left} left",
        counted(report.extents_checked, "extent"),
        report.bytes_read >> 20,
        counted(repaired, "problem")
    )));
    if left == 0 {
        return Ok(());
    }
    let error = AdminError::new(
        Code::Damaged,
        format!("disk group {group} has {} not repaired", counted(left, "problem")),
    );
    Err(if repair {
        error.hint("restore the files that are named from a backup").into()
    } else {
        error.hint(format!("ALTER DISKGROUP {group} CHECK REPAIR")).into()
    })
}

/// Does the same for each group; the first refusal is the statement's, the others are its detail.
fn each(
    groups: &[At<String>],
    mut what: impl FnMut(&str) -> std::result::Result<(), AdminError>,
) -> Result<Outcome> {
    let results = groups
        .iter()
        .map(|group| what(&group.value).map_err(|error| SqlError::from(error).or_at(group.at)));
    together(results.collect())
}

/// One result of several: the first refusal, with the others as its detail.
fn together(results: Vec<Result<()>>) -> Result<Outcome> {
    let mut refused: Option<SqlError> = None;
    for refusal in results.into_iter().filter_map(Result::err) {
        match &mut refused {
            None => refused = Some(refusal),
            Some(first) => {
                let detail = first.detail.take().unwrap_or_default();
                first.detail = Some(format!("{detail}; also: {}", refusal.message));
            }
        }
    }
    refused.map_or(Ok(Outcome::Done), Err)
}

/// The paths of the discovered disks that a clause names, or that its pattern matches.
fn matches(path: &At<String>, survey: &[Survey], diskstring: &str) -> Result<Vec<String>> {
    let at = path.at;
    let wanted = &path.value;
    if !wanted.contains(['*', '?', '[']) {
        if survey.iter().any(|disk| disk.is_at(wanted)) {
            return Ok(vec![wanted.clone()]);
        }
        let error = AdminError::new(
            Code::UnknownDisk,
            format!("disk {wanted} is not among those that asm_diskstring ('{diskstring}') shows"),
        );
        let hint = if wanted.starts_with(LABEL_PATH) {
            format!("ALTER SYSTEM SET asm_diskstring = '{diskstring},{LABEL_PATH}*'")
        } else if std::path::Path::new(wanted).exists() {
            format!("ALTER SYSTEM SET asm_diskstring = '{diskstring},{}'", pattern_of(wanted))
        } else {
            "there is no such path; v$asm_disk shows the disks that there are".to_owned()
        };
        return Err(SqlError::from(error.hint(hint)).at(at));
    }
    let pattern = glob::Pattern::new(wanted)
        .map_err(|error| SqlError::syntax(at, format!("'{wanted}' is no pattern: {error}")))?;
    let options =
        glob::MatchOptions { require_literal_separator: true, ..glob::MatchOptions::new() };
    // Each device once, by the first of its paths that matches.
    let of = |disk: &Survey| {
        let mut paths = std::iter::once(&disk.path).chain(&disk.aliases);
        paths.find(|path| pattern.matches_with(path, options)).cloned()
    };
    let mut found: Vec<String> = survey.iter().filter_map(of).collect();
    found.sort();
    found.dedup();
    if found.is_empty() {
        let error = AdminError::new(
            Code::UnknownDisk,
            format!(
                "'{wanted}' matches none of the disks that asm_diskstring ('{diskstring}') shows"
            ),
        );
        return Err(SqlError::from(
            error.hint(format!("ALTER SYSTEM SET asm_diskstring = '{diskstring},{wanted}'")),
        )
        .at(at));
    }
    Ok(found)
}

impl Source for Context {
    fn groups(&self) -> BTreeMap<String, u32> {
        self.instance.groups()
    }

    fn query(
        &self,
        group: &str,
        sql: &str,
        part: &mut dyn FnMut(usize, Vec<u8>) -> std::result::Result<(), AdminError>,
    ) -> std::result::Result<(), AdminError> {
        self.instance.query(group, sql, part)
    }

    fn survey(&self) -> std::result::Result<Vec<Survey>, AdminError> {
        self.instance.discovery().survey()
    }

    fn estimates(&self) -> Vec<Estimated> {
        self.instance.estimates()
    }

    fn user(&self) -> String {
        self.who.clone()
    }

    fn budget(&self) -> Budget {
        self.budget.clone()
    }

    fn sql_rules(&self) -> Choice {
        let chosen = lock(&self.settings).get(rules::SETTING).and_then(Choice::named);
        chosen.unwrap_or(self.sql_rules)
    }

    fn password_users(&self) -> Vec<Vec<Value>> {
        self.instance.password_rows()
    }

    fn settings(&self) -> BTreeMap<String, String> {
        Self::settings(self)
    }

    fn instance_rows(&self, view: &View) -> Vec<Vec<Value>> {
        self.rows_of(view)
    }

    fn userenv(&self) -> userenv::Facts {
        self.facts()
    }

    fn formats(&self) -> Formats {
        Self::formats(self)
    }
}
