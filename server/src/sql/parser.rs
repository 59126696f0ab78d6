//! Parses one statement's tokens, by recursive descent. Clauses that ASM has and Plinth does not
//! have yet are recognised, and refused at their position.

mod access;
mod names;
mod reclaim;
mod refused;
mod scrub;
mod sessions;
mod system;
mod transactions;
mod users;
mod volume;

use super::{
    query::Query,
    statement::{Alter, At, Groups, Places, Statement},
    tokens::{Kind, Text, Token},
};
use crate::sql_error::{SqlError, state};
use plinth_engine::{
    admin::{
        Command, Conversion, Departure, Exchange, NewDisk, NewGroup, Order, Phases, Renaming,
        Replacement, Resize, Selection, Work,
    },
    catalog::attributes::{repair_time, what_if},
    disk::identify::shown_path,
    group::POWER_MAX,
};
use plinth_format::{NAME_MAX, Redundancy, is_name};

type Result<T> = std::result::Result<T, SqlError>;

/// The default AU size of a group, in bytes.
pub(crate) const AU_SIZE_DEFAULT: u64 = 4 << 20;

/// The longest path of a disk, in bytes.
const PATH_MAX: usize = 4095;

/// The longest id of an `EXPLAIN WORK`, in characters: as in ASM.
const STATEMENT_ID_MAX: usize = 30;

/// Words that belong after REBALANCE, and are often written without it.
const REBALANCE_WORDS: [&str; 3] = ["POWER", "WAIT", "NOWAIT"];

struct Parser<'a> {
    text: &'a Text<'a>,
    tokens: &'a [Token],
    next: usize,
}

/// Parses the tokens of one statement; there is at least one.
pub(super) fn statement<'a>(text: &'a Text<'a>, tokens: &'a [Token]) -> Result<Statement> {
    let mut parser = Parser { text, tokens, next: 0 };
    let statement = parser.statement()?;
    match parser.peek() {
        None => Ok(statement),
        Some(_) => Err(parser.expected("the end of the statement")),
    }
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    /// Where the next token starts; at the end of the statement, where it ends.
    fn here(&self) -> usize {
        match (self.peek(), self.tokens.last()) {
            (Some(token), _) => token.start,
            (None, Some(last)) => last.end,
            (None, None) => 0,
        }
    }

    fn is(&self, keyword: &str) -> bool {
        self.peek().is_some_and(|token| token.is(keyword))
    }

    /// Takes the keyword, if it comes next.
    fn take(&mut self, keyword: &str) -> bool {
        let found = self.is(keyword);
        self.next += usize::from(found);
        found
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.peek().is_some_and(|token| token.is_symbol(symbol));
        self.next += usize::from(found);
        found
    }

    fn need(&mut self, keyword: &str) -> Result<()> {
        if self.take(keyword) { Ok(()) } else { Err(self.expected(keyword)) }
    }

    /// The syntax error at the next token.
    fn expected(&self, what: &str) -> SqlError {
        let message = match self.peek() {
            Some(token) => {
                let found: String =
                    self.text.between(token.start, token.end).chars().take(60).collect();
                format!("syntax error at or near \"{found}\": expected {what}")
            }
            None => format!("syntax error at the end of the statement: expected {what}"),
        };
        SqlError::syntax(self.here(), message)
    }

    fn later(&self, what: &str) -> SqlError {
        SqlError::new(state::NOT_SUPPORTED, format!("{what} is not supported yet")).at(self.here())
    }

    /// A name of a group, disk or failure group.
    fn name(&mut self, what: &str) -> Result<At<String>> {
        let at = self.here();
        let name = match self.peek().map(|token| &token.kind) {
            Some(Kind::Word(name) | Kind::Quoted(name)) => name.to_uppercase(),
            _ => return Err(self.expected(what)),
        };
        if !is_name(&name) {
            return Err(not_a_name(at, &name, what));
        }
        self.next += 1;
        Ok(At { value: name, at })
    }

    /// A name of a disk or failure group, which may be in single quotes: no path stands here.
    fn member(&mut self, what: &str) -> Result<At<String>> {
        let at = self.here();
        let Some(Kind::String(name)) = self.peek().map(|token| &token.kind) else {
            return self.name(what);
        };
        let name = name.to_uppercase();
        if !is_name(&name) {
            return Err(not_a_name(at, &name, what));
        }
        self.next += 1;
        Ok(At { value: name, at })
    }

    fn names(&mut self, what: &str) -> Result<Vec<At<String>>> {
        let mut names = vec![self.name(what)?];
        while self.take_symbol(",") {
            names.push(self.name(what)?);
        }
        Ok(names)
    }

    fn members(&mut self, what: &str) -> Result<Vec<At<String>>> {
        let mut names = vec![self.member(what)?];
        while self.take_symbol(",") {
            names.push(self.member(what)?);
        }
        Ok(names)
    }

    fn string(&mut self, what: &str) -> Result<At<String>> {
        let at = self.here();
        match self.peek().map(|token| &token.kind) {
            Some(Kind::String(value)) => {
                let value = value.clone();
                if value.contains('\0') {
                    return Err(SqlError::syntax(at, format!("{what} holds a zero byte")));
                }
                self.next += 1;
                Ok(At { value, at })
            }
            _ => Err(self.expected(what)),
        }
    }

    fn statement(&mut self) -> Result<Statement> {
        let Some(first) = self.peek() else { return Err(self.expected("a statement")) };
        let Kind::Word(word) = &first.kind else {
            return if first.is_symbol("(") {
                Ok(self.query())
            } else {
                Err(self.expected(STATEMENTS))
            };
        };
        match word.to_ascii_uppercase().as_str() {
            "SELECT" | "WITH" | "VALUES" => Ok(self.query()),
            "CREATE" => self.create(),
            "DROP" => self.drop_group(),
            "ALTER" => self.alter(),
            "SHOW" => self.show(),
            "BEGIN" => self.begin(),
            "START" => self.start_transaction(),
            "COMMIT" | "END" => self.commit(),
            "ROLLBACK" | "ABORT" => self.rollback(),
            word @ ("DECLARE" | "EXEC" | "EXECUTE" | "CALL" | "DO") => Err(self.procedural(word)),
            "SET" | "RESET" | "DISCARD" | "DEALLOCATE" => sessions::statement(self),
            "SAVEPOINT" | "RELEASE" | "LISTEN" | "UNLISTEN" | "CLOSE" => sessions::named(self),
            "EXPLAIN" => self.explain(),
            "INSERT" | "UPDATE" | "DELETE" | "MERGE" | "TRUNCATE" | "COPY" | "LOCK" | "GRANT"
            | "REVOKE" | "ATTACH" | "DETACH" | "PRAGMA" | "VACUUM" | "REINDEX" | "ANALYZE" => {
                Err(SqlError::new(state::NOT_SUPPORTED, "the views can only be read")
                    .at(self.here())
                    .hint(STATEMENTS))
            }
            "AUDIT" | "COMMENT" | "FLASHBACK" | "NOAUDIT" | "PURGE" | "RENAME" => {
                Err(self.not_open())
            }
            _ => Err(self.expected(STATEMENTS)),
        }
    }

    fn query(&mut self) -> Statement {
        let from = self.next;
        self.next = self.tokens.len();
        Statement::Query(Query::of(self.text, self.tokens.get(from..).unwrap_or_default()))
    }

    fn ignore_rest(&mut self, statement: Statement) -> Statement {
        self.next = self.tokens.len();
        statement
    }

    fn show(&mut self) -> Result<Statement> {
        self.next += 1;
        let at = self.here();
        let Some(first) = self.peek() else {
            return Err(self.expected("the name of a parameter, or ALL"));
        };
        if first.is("ALL") {
            self.next += 1;
            return Ok(Statement::ShowAll);
        }
        if let Some(stored) = shows_parameters(first) {
            self.next += 1;
            return self.show_parameter(stored);
        }
        let mut name = match &first.kind {
            Kind::Word(name) | Kind::Quoted(name) => name.to_lowercase(),
            _ => return Err(self.expected("the name of a parameter, or ALL")),
        };
        self.next += 1;
        // SHOW plinth.version; SHOW TRANSACTION ISOLATION LEVEL; SHOW TIME ZONE.
        let mut glue = "_";
        while let Some(token) = self.peek() {
            match &token.kind {
                Kind::Symbol(symbol) if symbol == "." => glue = ".",
                Kind::Word(word) => {
                    name = format!("{name}{glue}{}", word.to_lowercase());
                    glue = "_";
                }
                _ => return Err(self.expected("the end of the statement")),
            }
            self.next += 1;
        }
        Ok(Statement::Show(At { value: name, at }))
    }

    /// `SHOW {PARAMETER[S] | SPPARAMETER[S]} [text]`, after its second word: a word, a string, or
    /// words and `%` as SQL*Plus takes them.
    fn show_parameter(&mut self, stored: bool) -> Result<Statement> {
        let at = self.here();
        let Some(first) = self.peek() else {
            return Ok(Statement::ShowParameter { like: None, stored });
        };
        let (start, mut end) = (first.start, first.end);
        let value = if let Kind::String(text) | Kind::Quoted(text) = &first.kind {
            text.clone()
        } else {
            // As it is written, up to the next blank.
            while let Some(next) = self.tokens.get(self.next + 1).filter(|next| next.start == end) {
                end = next.end;
                self.next += 1;
            }
            self.text.between(start, end).to_owned()
        };
        self.next += 1;
        Ok(Statement::ShowParameter { like: Some(At { value, at }), stored })
    }

    fn create(&mut self) -> Result<Statement> {
        self.next += 1;
        if self.take("USER") || self.take("ROLE") {
            return users::create(self);
        }
        if !self.take("DISKGROUP") {
            let refusal = self.refuse_of_object();
            return Err(refusal.unwrap_or_else(|| self.expected("DISKGROUP or USER")));
        }
        let name = self.name("the name of a disk group")?;
        if name.value == "ALL" {
            // Then `ALTER DISKGROUP ALL DISMOUNT` would be ambiguous.
            return Err(SqlError::syntax(name.at, "\"ALL\" cannot be the name of a disk group")
                .hint("it means all disk groups"));
        }
        let redundancy = self.redundancy()?;
        let (mut disks, mut places) = (Vec::new(), Places::new());
        while !(self.peek().is_none() || self.is("ATTRIBUTE")) {
            self.disks(&mut disks, redundancy, &mut places)?;
        }
        if disks.is_empty() {
            return Err(self.expected("DISK, FAILGROUP or QUORUM"));
        }
        let mut attributes = Vec::new();
        if self.take("ATTRIBUTE") {
            // Oracle has no parentheses here, but users write them.
            let open = self.take_symbol("(");
            loop {
                let (name, value) = self.attribute()?;
                if attributes.iter().any(|(earlier, _): &(String, String)| *earlier == name.value) {
                    return Err(SqlError::syntax(
                        name.at,
                        format!("attribute '{}' is given twice", name.value),
                    ));
                }
                places.push((name.value.clone(), name.at));
                attributes.push((name.value, value));
                if !self.take_symbol(",") {
                    break;
                }
            }
            if open && !self.take_symbol(")") {
                return Err(self.expected("',' or ')'"));
            }
        }
        let at = name.at;
        let new =
            NewGroup { name: name.value, redundancy, au_size: AU_SIZE_DEFAULT, attributes, disks };
        Ok(Statement::CreateGroup { new, places, at })
    }

    fn redundancy(&mut self) -> Result<Redundancy> {
        if let Some(redundancy) = self.kind_of_redundancy()? {
            self.need("REDUNDANCY")?;
            return Ok(redundancy);
        }
        if self.is("QUORUM") || self.is("REGULAR") || self.is("FAILGROUP") || self.is("DISK") {
            return Ok(Redundancy::Normal);
        }
        Err(self.expected("EXTERNAL, NORMAL or HIGH REDUNDANCY, FAILGROUP or DISK"))
    }

    /// `EXTERNAL`, `NORMAL` or `HIGH`, if one of them comes next.
    fn kind_of_redundancy(&mut self) -> Result<Option<Redundancy>> {
        if self.is("FLEX") || self.is("EXTENDED") {
            let refusal = self.later("FLEX and EXTENDED REDUNDANCY");
            return Err(refusal.hint(
                "use EXTERNAL, NORMAL or HIGH REDUNDANCY; CONVERT REDUNDANCY changes it later",
            ));
        }
        let kinds = [
            ("EXTERNAL", Redundancy::External),
            ("NORMAL", Redundancy::Normal),
            ("HIGH", Redundancy::High),
        ];
        Ok(kinds
            .into_iter()
            .find(|(keyword, _)| self.take(keyword))
            .map(|(_, redundancy)| redundancy))
    }

    /// `CONVERT REDUNDANCY TO {EXTERNAL|NORMAL|HIGH} [REDUNDANCY] [REBALANCE ...]`, after its first
    /// word.
    fn convert(&mut self, group: At<String>, at: usize) -> Result<Statement> {
        self.need("REDUNDANCY")?;
        self.need("TO")?;
        let Some(to) = self.kind_of_redundancy()? else {
            return Err(self.expected("EXTERNAL, NORMAL or HIGH"));
        };
        self.take("REDUNDANCY");
        let (order, wait) = self.rebalance_if_said()?;
        let command = Command::Convert { to: Conversion(to), order };
        Ok(Statement::Alter(Alter::one(group, command).at(at).wait(wait)))
    }

    /// `[QUORUM|REGULAR] [FAILGROUP f] DISK ...`
    fn disks(
        &mut self,
        disks: &mut Vec<NewDisk>,
        redundancy: Redundancy,
        places: &mut Places,
    ) -> Result<()> {
        let start = self.here();
        let quorum = self.kind_of_disks();
        let mut failure_group = None;
        if self.is("FAILGROUP") {
            if redundancy == Redundancy::External {
                return Err(SqlError::syntax(
                    start,
                    "a group of EXTERNAL redundancy has no failure groups",
                )
                .hint("leave FAILGROUP out, or make the group NORMAL or HIGH"));
            }
            self.next += 1;
            failure_group = Some(self.member("the name of a failure group")?.value);
        }
        if !self.take("DISK") {
            return Err(self.expected(match (quorum, &failure_group) {
                (true, None) => "FAILGROUP or DISK",
                (_, Some(_)) => "DISK",
                (false, None) => "DISK, FAILGROUP, QUORUM or ATTRIBUTE",
            }));
        }
        loop {
            let path = self.path("the path of a disk in single quotes")?;
            places.push((path.value.clone(), path.at));
            let mut disk = NewDisk {
                path: path.value,
                name: None,
                failure_group: failure_group.clone(),
                quorum,
                size: None,
                force: false,
            };
            if self.take("NAME") {
                let name = self.member("the name of a disk")?;
                places.push((name.value.clone(), name.at));
                disk.name = Some(name.value);
            }
            if self.take("SIZE") {
                disk.size = Some(self.size()?);
            }
            disk.force = self.take("FORCE");
            if !disk.force {
                self.take("NOFORCE");
            }
            disks.push(disk);
            // After a comma another clause may come.
            if !self.peek_after_comma(|kind| matches!(kind, Kind::String(_))) {
                return Ok(());
            }
            self.next += 1;
        }
    }

    /// Whether a comma comes next, and after it a token of this kind.
    fn peek_after_comma(&self, is_kind: impl Fn(&Kind) -> bool) -> bool {
        self.peek().is_some_and(|token| token.is_symbol(","))
            && self.tokens.get(self.next + 1).is_some_and(|token| is_kind(&token.kind))
    }

    /// A number of bytes: `1000000`, `512K`, `10G`, with or without quotes.
    fn size(&mut self) -> Result<u64> {
        let at = self.here();
        const WHAT: &str = "a size such as 512M or 10G";
        let Some(token) = self.peek() else { return Err(self.expected(WHAT)) };
        let mut written = match &token.kind {
            Kind::Number(digits) => digits.clone(),
            Kind::String(written) => written.clone(),
            _ => return Err(self.expected(WHAT)),
        };
        let end = token.end;
        self.next += 1;
        if let Some(Token { kind: Kind::Word(suffix), start, .. }) = self.peek()
            && *start == end
        {
            written.push_str(suffix);
            self.next += 1;
        }
        parse_size(&written)
            .ok_or_else(|| SqlError::syntax(at, format!("'{written}' is not {WHAT}")))
    }

    /// `[DROP AFTER n {M|H}]`: seconds. The number may have a fraction; number and unit may be in
    /// quotes together.
    fn drop_after(&mut self) -> Result<Option<u64>> {
        if !self.take("DROP") {
            return Ok(None);
        }
        self.need("AFTER")?;
        let at = self.here();
        const WHAT: &str = "a number of minutes or hours, such as 90M or 4.5H";
        let mut written = match self.peek().map(|token| &token.kind) {
            Some(Kind::Number(digits)) => digits.clone(),
            Some(Kind::String(text)) => text.clone(),
            _ => return Err(self.expected(WHAT)),
        };
        let is_whole = matches!(self.peek().map(|token| &token.kind), Some(Kind::String(_)));
        self.next += 1;
        if !is_whole {
            let unit = ["M", "H"].into_iter().find(|unit| self.take(unit));
            written.push_str(unit.ok_or_else(|| self.expected("M or H"))?);
        }
        match repair_time(&written) {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(SqlError::syntax(at, format!("expected {WHAT}, at most 136 years"))),
        }
    }

    /// `'name' = 'value'`
    fn attribute(&mut self) -> Result<(At<String>, String)> {
        let mut name = self.string("the name of an attribute in single quotes")?;
        name.value = name.value.to_lowercase();
        if !self.take_symbol("=") {
            return Err(self.expected("'='"));
        }
        let value = self.string("the value of the attribute in single quotes")?;
        Ok((name, value.value))
    }

    fn drop_group(&mut self) -> Result<Statement> {
        self.next += 1;
        if self.take("USER") || self.take("ROLE") {
            return Ok(Statement::DropUser(self.name("the name of a user")?));
        }
        if !self.take("DISKGROUP") {
            let refusal = self.refuse_of_object();
            return Err(refusal.unwrap_or_else(|| self.expected("DISKGROUP or USER")));
        }
        let name = self.name("the name of a disk group")?;
        let force = self.take("FORCE");
        let contents = self.take("INCLUDING");
        if contents || self.take("EXCLUDING") {
            self.need("CONTENTS")?;
        } else if force || self.peek().is_some() {
            return Err(self.expected(if force {
                "INCLUDING CONTENTS"
            } else {
                "INCLUDING CONTENTS or EXCLUDING CONTENTS"
            }));
        }
        Ok(Statement::DropGroup { name, force, contents })
    }

    fn alter(&mut self) -> Result<Statement> {
        self.next += 1;
        if self.take("SYSTEM") {
            return self.alter_system();
        }
        if self.take("SESSION") {
            return self.alter_session();
        }
        if self.is("DATABASE") {
            return Err(self.refuse_of_database());
        }
        if self.take("USER") || self.take("ROLE") {
            return users::alter(self);
        }
        if !self.take("DISKGROUP") {
            let refusal = self.refuse_of_object();
            return Err(
                refusal.unwrap_or_else(|| self.expected("DISKGROUP, SYSTEM, SESSION or USER"))
            );
        }
        let groups = if self.take("ALL") {
            Groups::All
        } else {
            Groups::Named(self.names("the name of a disk group, or ALL")?)
        };
        if let Some(statement) = self.clause_of_groups(&groups)? {
            return Ok(statement);
        }
        let group = self.one(groups)?;
        self.clause_of_group(group)
    }

    /// Clauses that are allowed for several groups.
    fn clause_of_groups(&mut self, groups: &Groups) -> Result<Option<Statement>> {
        if self.take("MOUNT") {
            let restricted = self.take("RESTRICTED");
            if !restricted {
                self.take("NORMAL");
            }
            return Ok(Some(Statement::Mount {
                groups: groups.clone(),
                force: self.force(),
                restricted,
            }));
        }
        if self.take("DISMOUNT") {
            return Ok(Some(Statement::Dismount { groups: groups.clone(), force: self.force() }));
        }
        if self.take("UNDROP") {
            self.need("DISKS")?;
            return Ok(Some(Statement::Alter(Alter::of(groups.clone(), Command::Undrop))));
        }
        if self.take("SCRUB") {
            return self.scrub(groups.clone()).map(Some);
        }
        self.enable_volumes(groups)
    }

    /// Clauses that are allowed for one group only.
    fn clause_of_group(&mut self, group: At<String>) -> Result<Statement> {
        let at = self.here();
        if let Some(statement) = self.names_clause(&group)? {
            return Ok(statement);
        }
        if let Some(statement) = self.other_clause(&group)? {
            return Ok(statement);
        }
        if self.is("ADD") || self.is("DROP") {
            return self.exchange(group);
        }
        if self.is("REBALANCE") {
            let (order, wait) = self.rebalance()?;
            return Ok(Statement::Alter(Alter::one(group, Command::Rebalance(order)).wait(wait)));
        }
        if self.take("RECLAIM") {
            return self.reclaim(group);
        }
        if self.is("REPLACE") {
            return self.replace(group);
        }
        if self.take("RENAME") {
            return self.rename(group, at);
        }
        if self.take("RESIZE") {
            return self.resize(group, at);
        }
        if self.take("CONVERT") {
            return self.convert(group, at);
        }
        if self.take("OFFLINE") {
            let which = self.selection(false)?;
            let drop_after = self.drop_after()?;
            self.wait_or_not();
            let command = Command::Offline { which, drop_after };
            return Ok(Statement::Alter(Alter::one(group, command).at(at)));
        }
        if self.take("ONLINE") {
            let which = self.selection(true)?;
            let (power, wait) = self.resync()?;
            let command = Command::Online { which, power };
            return Ok(Statement::Alter(Alter::one(group, command).at(at).wait(wait)));
        }
        if self.take("SET") {
            if !self.take("ATTRIBUTE") {
                return Err(self.expected("ATTRIBUTE, PERMISSION or OWNERSHIP"));
            }
            let (name, value) = self.attribute()?;
            let force = self.is("FORCE");
            if force && !name.value.starts_with(what_if::PREFIX) {
                return Err(self.expected("the end of the statement: FORCE is for what_if.delay"));
            }
            self.take("FORCE");
            let command = Command::SetAttribute { name: name.value, value, force };
            return Ok(Statement::Alter(Alter::one(group, command).at(name.at)));
        }
        const LATER: [&str; 3] = ["MODIFY", "MOVE", "ALTER"];
        if let Some(keyword) = LATER.iter().find(|keyword| self.is(keyword)) {
            return Err(self.later(&format!("ALTER DISKGROUP ... {keyword}")));
        }
        Err(self.expected(
            "MOUNT, DISMOUNT, ADD, DROP, UNDROP, REPLACE, RENAME, RESIZE, CONVERT, REBALANCE, RECLAIM, OFFLINE, ONLINE, CHECK, SCRUB, MODIFY, ENABLE, DISABLE or SET",
        ))
    }

    /// `ADD DISK ... DROP DISK ... REBALANCE ...`: clauses in any order, with or without commas
    /// between them.
    fn exchange(&mut self, group: At<String>) -> Result<Statement> {
        let at = self.here();
        let (mut exchange, mut places) = (Exchange::default(), Places::new());
        const NOT_DISKS: [&str; 5] = ["VOLUME", "USERGROUP", "USER", "QUOTAGROUP", "FILEGROUP"];
        loop {
            let adds = self.take("ADD");
            if !adds && !self.take("DROP") {
                break;
            }
            if let Some(what) = NOT_DISKS.into_iter().find(|keyword| self.is(keyword)) {
                return Err(self.later(&format!("{} {what}", if adds { "ADD" } else { "DROP" })));
            }
            loop {
                if adds {
                    self.disks(&mut exchange.add, Redundancy::Normal, &mut places)?;
                } else {
                    self.drop_disks(&mut exchange.drop)?;
                }
                // Any other word continues the list of this clause.
                if ["ADD", "DROP", "REBALANCE"]
                    .iter()
                    .chain(&REBALANCE_WORDS)
                    .any(|keyword| self.is(keyword))
                    || self.peek().is_none()
                {
                    break;
                }
                if self.take_symbol(",") && (self.is("ADD") || self.is("DROP")) {
                    break;
                }
            }
        }
        let (order, wait) = self.rebalance_if_said()?;
        let command = Command::Exchange { exchange, order };
        Ok(Statement::Alter(Alter::one(group, command).at(at).wait(wait).places(places)))
    }

    /// `[QUORUM|REGULAR] DISK a [FORCE|RECLAIM], b` or `DISKS IN [QUORUM|REGULAR] FAILGROUP f
    /// [FORCE|RECLAIM], g`
    fn drop_disks(&mut self, drop: &mut Vec<Departure>) -> Result<()> {
        let groups = self.names_groups("DISK or DISKS IN FAILGROUP")?;
        loop {
            let name = self.member(if groups {
                "the name of a failure group"
            } else {
                "the name of a disk"
            })?;
            let names = vec![name.value];
            let which =
                if groups { Selection::FailureGroups(names) } else { Selection::Disks(names) };
            let (force, at) = (self.force(), self.here());
            let reclaim = self.take("RECLAIM");
            if force && reclaim {
                let text = "RECLAIM is not for disks that are dropped with FORCE: they may be all that is left of something";
                return Err(SqlError::syntax(at, text));
            }
            drop.push(Departure { which, force, reclaim });
            let is_clause =
                |word: &str| ["ADD", "DROP", "DISK", "DISKS", "QUORUM", "REGULAR"].contains(&word);
            let goes_on = |kind: &Kind| match kind {
                Kind::Word(word) => !is_clause(&word.to_ascii_uppercase()),
                Kind::Quoted(_) | Kind::String(_) => true,
                _ => false,
            };
            if !self.peek_after_comma(goes_on) {
                return Ok(());
            }
            self.next += 1;
        }
    }

    /// `REPLACE DISK a WITH 'path' [FORCE|NOFORCE], b WITH ... [POWER n] [WAIT|NOWAIT]`
    fn replace(&mut self, group: At<String>) -> Result<Statement> {
        self.next += 1;
        self.need("DISK")?;
        let (mut replacements, mut places) = (Vec::new(), Places::new());
        loop {
            let name = self.member("the name of a disk")?;
            self.need("WITH")?;
            let path = self.path("the path of a disk in single quotes")?;
            places.push((name.value.clone(), name.at));
            places.push((path.value.clone(), path.at));
            replacements.push(Replacement {
                disk: name.value,
                path: path.value,
                force: self.force(),
            });
            if !self.take_symbol(",") {
                break;
            }
        }
        let (power, wait) = self.resync()?;
        let at = places.first().map_or(group.at, |(_, at)| *at);
        let command = Command::Replace { replacements, power };
        Ok(Statement::Alter(Alter::one(group, command).at(at).wait(wait).places(places)))
    }

    /// `RENAME {DISK old TO new [, ...] | DISKS ALL}`, after its first word.
    fn rename(&mut self, group: At<String>, at: usize) -> Result<Statement> {
        if self.take("DISKS") {
            self.need("ALL")?;
            let command = Command::Rename(Renaming::All);
            return Ok(Statement::Alter(Alter::one(group, command).at(at)));
        }
        self.need("DISK")?;
        let mut pairs = Vec::new();
        loop {
            let old = self.member("the name of a disk")?;
            self.need("TO")?;
            let new = self.member("its new name")?;
            pairs.push((old.value, new.value));
            if !self.take_symbol(",") {
                let command = Command::Rename(Renaming::Disks(pairs));
                return Ok(Statement::Alter(Alter::one(group, command).at(at)));
            }
        }
    }

    /// `RESIZE {ALL [SIZE n] | {DISK d [SIZE n] | DISKS IN FAILGROUP f [SIZE n]} [, ...]}
    /// [REBALANCE ...]`, after its first word.
    fn resize(&mut self, group: At<String>, at: usize) -> Result<Statement> {
        let mut resizes = Vec::new();
        if self.take("ALL") {
            resizes.push(Resize { which: Selection::All, size: self.new_size()? });
        } else {
            let mut groups = false;
            loop {
                // After a comma a name may come without DISK.
                if self.take("DISKS") {
                    self.need("IN")?;
                    self.need("FAILGROUP")?;
                    groups = true;
                } else if self.take("DISK") {
                    groups = false;
                } else if resizes.is_empty() {
                    return Err(self.expected("ALL, DISK or DISKS IN FAILGROUP"));
                }
                let name = self
                    .member(if groups {
                        "the name of a failure group"
                    } else {
                        "the name of a disk"
                    })?
                    .value;
                let which = if groups {
                    Selection::FailureGroups(vec![name])
                } else {
                    Selection::Disks(vec![name])
                };
                resizes.push(Resize { which, size: self.new_size()? });
                if !self.take_symbol(",") {
                    break;
                }
            }
        }
        let (order, wait) = self.rebalance_if_said()?;
        let command = Command::Resize { resizes, order };
        Ok(Statement::Alter(Alter::one(group, command).at(at).wait(wait)))
    }

    /// `[SIZE n]`
    fn new_size(&mut self) -> Result<Option<u64>> {
        if self.take("SIZE") { self.size().map(Some) } else { Ok(None) }
    }

    /// The path of a disk, as discovery shows it.
    fn path(&mut self, expected: &str) -> Result<At<String>> {
        let path = self.string(expected)?;
        if path.value.is_empty() || path.value.len() > PATH_MAX {
            return Err(SqlError::syntax(path.at, "this cannot be the path of a disk"));
        }
        Ok(At { value: shown_path(&path.value), at: path.at })
    }

    /// `[WITH phase, ... | WITHOUT phase, ...]`. Lost mirrors are always restored.
    fn phases(&mut self) -> Result<Phases> {
        let with = self.take("WITH");
        if !with && !self.take("WITHOUT") {
            return Ok(Phases::default());
        }
        // WITH names the only phases to run.
        let mut phases =
            if with { Phases { balance: false, compact: Some(false) } } else { Phases::default() };
        loop {
            if self.is("RESTORE") && !with {
                return Err(self
                    .expected("BALANCE, PREPARE or COMPACT")
                    .hint("what was lost is always restored"));
            }
            if self.take("BALANCE") {
                phases.balance = with;
            } else if self.take("COMPACT") {
                phases.compact = Some(with);
            } else if !self.take("RESTORE") && !self.take("PREPARE") {
                return Err(self.expected("RESTORE, BALANCE, PREPARE or COMPACT"));
            }
            if !self.take_symbol(",") {
                return Ok(phases);
            }
        }
    }

    /// `[REBALANCE ...]`, after a clause that moves data: the power and phases, and whether to
    /// wait.
    fn rebalance_if_said(&mut self) -> Result<(Order, Option<bool>)> {
        if self.is("REBALANCE") {
            return self.rebalance();
        }
        if REBALANCE_WORDS.iter().any(|word| self.is(word)) {
            return Err(self
                .expected("REBALANCE or the end of the statement")
                .hint("such as REBALANCE POWER 8 WAIT"));
        }
        Ok((Order::default(), None))
    }

    /// `REBALANCE [WITH|WITHOUT phases] [POWER n | MODIFY POWER [n]] [WAIT|NOWAIT]`
    fn rebalance(&mut self) -> Result<(Order, Option<bool>)> {
        self.need("REBALANCE")?;
        let phases = self.phases()?;
        let modify = self.take("MODIFY");
        if modify && !self.is("POWER") {
            return Err(self.expected("POWER"));
        }
        let is_bare = modify
            && !matches!(
                self.tokens.get(self.next + 1).map(|token| &token.kind),
                Some(Kind::Number(_))
            );
        // Neither power nor phases: the power of statements that name none.
        let power = if is_bare {
            self.next += 1;
            None
        } else {
            self.power()?
        };
        let phases = (!modify).then_some(phases);
        Ok((Order { power, phases }, self.wait_or_not()))
    }

    /// `[POWER n]`
    fn power(&mut self) -> Result<Option<u32>> {
        if !self.take("POWER") {
            return Ok(None);
        }
        let at = self.here();
        let number = match self.peek().map(|token| &token.kind) {
            Some(Kind::Number(digits)) => digits.parse().ok().filter(|power| *power <= POWER_MAX),
            _ => None,
        };
        if number.is_none() {
            return Err(SqlError::syntax(at, format!("a power is a number from 0 to {POWER_MAX}"))
                .hint("it is how many mirrors move at once; 0 pauses"));
        }
        self.next += 1;
        Ok(number)
    }

    /// `EXPLAIN WORK [SET STATEMENT_ID = 'id'] FOR ALTER DISKGROUP ...`
    fn explain(&mut self) -> Result<Statement> {
        self.next += 1;
        if !self.take("WORK") {
            return Err(self
                .expected("WORK")
                .hint("EXPLAIN WORK FOR ALTER DISKGROUP ... says how much would move"));
        }
        let mut id = String::new();
        if self.take("SET") {
            self.need("STATEMENT_ID")?;
            if !self.take_symbol("=") {
                return Err(self.expected("'='"));
            }
            let written = self.string("an id in single quotes")?;
            if written.value.chars().count() > STATEMENT_ID_MAX {
                let text = format!("a STATEMENT_ID has at most {STATEMENT_ID_MAX} characters");
                return Err(SqlError::syntax(written.at, text));
            }
            id = written.value;
        }
        self.need("FOR")?;
        let at = self.here();
        if !self.is("ALTER") {
            return Err(self.expected("ALTER DISKGROUP"));
        }
        let moves_nothing = || {
            SqlError::syntax(at, "this statement moves nothing")
                .hint("ADD, DROP, RESIZE, CONVERT and REBALANCE do")
        };
        let Statement::Alter(alter) = self.alter()? else { return Err(moves_nothing()) };
        if let Command::Reclaim(order) = alter.command {
            let (command, power) = (Command::Reclaimable(order.which), order.power);
            let alter = Alter { command, wait: None, ..alter };
            return Ok(Statement::ExplainWork { id, alter, power });
        }
        let (work, order, at) = match alter.command {
            Command::Exchange { exchange, order } => (Work::Exchange(exchange), order, alter.at),
            Command::Resize { resizes, order } => (Work::Resize(resizes), order, alter.at),
            Command::Convert { to, order } => (Work::Convert(to), order, alter.at),
            Command::Rebalance(order) => (Work::Exchange(Exchange::default()), order, at),
            _ => return Err(moves_nothing()),
        };
        let alter = Alter { command: Command::Estimate(work), at, wait: None, ..alter };
        Ok(Statement::ExplainWork { id, alter, power: order.power })
    }

    fn force(&mut self) -> bool {
        let force = self.take("FORCE");
        if !force {
            self.take("NOFORCE");
        }
        force
    }

    fn one(&self, groups: Groups) -> Result<At<String>> {
        match groups {
            Groups::All => Err(SqlError::syntax(
                self.here(),
                "only MOUNT, DISMOUNT, UNDROP DISKS and SCRUB of whole disk groups take ALL",
            )
            .hint("name one disk group")),
            Groups::Named(names) => {
                let mut names = names.into_iter();
                match (names.next(), names.next()) {
                    (Some(name), None) => Ok(name),
                    (_, second) => Err(SqlError::syntax(
                        second.map_or(self.here(), |second| second.at),
                        "only MOUNT, DISMOUNT, UNDROP DISKS and SCRUB of whole disk groups take several disk groups",
                    )
                    .hint("name one disk group")),
                }
            }
        }
    }

    /// A selection of disks: `DISK a, b`, `DISKS IN FAILGROUP f, g`, several of these, `ALL`.
    fn selection(&mut self, all: bool) -> Result<Selection> {
        let what =
            if all { "DISK, DISKS IN FAILGROUP or ALL" } else { "DISK or DISKS IN FAILGROUP" };
        if all && self.take("ALL") {
            return Ok(Selection::All);
        }
        let values = |names: Vec<At<String>>| names.into_iter().map(|name| name.value).collect();
        let mut all = Vec::new();
        loop {
            all.push(if self.names_groups(what)? {
                Selection::FailureGroups(values(self.members("the name of a failure group")?))
            } else {
                Selection::Disks(values(self.members("the name of a disk")?))
            });
            if !["DISK", "DISKS", "QUORUM", "REGULAR"].iter().any(|word| self.is(word)) {
                break;
            }
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Selection::Several(all) })
    }

    /// `[POWER n] [WAIT|NOWAIT]`, for an operation that cannot pause.
    fn resync(&mut self) -> Result<(Option<u32>, Option<bool>)> {
        let at = self.here();
        let power = self.power()?;
        if power == Some(0) {
            return Err(SqlError::syntax(
                at,
                format!("the power of a resync is a number from 1 to {POWER_MAX}"),
            ));
        }
        Ok((power, self.wait_or_not()))
    }

    /// `[WAIT|NOWAIT]`
    fn wait_or_not(&mut self) -> Option<bool> {
        if self.take("WAIT") { Some(true) } else { self.take("NOWAIT").then_some(false) }
    }

    /// `[QUORUM|REGULAR] DISK`, or `DISKS IN [QUORUM|REGULAR] FAILGROUP`: whether failure groups
    /// are named.
    fn names_groups(&mut self, what: &str) -> Result<bool> {
        self.kind_of_disks();
        if self.take("DISK") {
            return Ok(false);
        }
        if !self.take("DISKS") {
            return Err(self.expected(what));
        }
        self.need("IN")?;
        self.kind_of_disks();
        self.need("FAILGROUP")?;
        Ok(true)
    }

    /// `[QUORUM|REGULAR]`: whether it is QUORUM.
    fn kind_of_disks(&mut self) -> bool {
        let quorum = self.take("QUORUM");
        if !quorum {
            self.take("REGULAR");
        }
        quorum
    }
}

/// Whether a word after SHOW asks for parameters as SQL*Plus does, which takes shorter forms, too;
/// and then, whether for those that are stored.
fn shows_parameters(word: &Token) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|known| word.is(known));
    if is(&["PARAM", "PARAMETER", "PARAMETERS"]) {
        return Some(false);
    }
    is(&["SPPARAMETER", "SPPARAMETERS"]).then_some(true)
}

fn not_a_name(at: usize, name: &str, what: &str) -> SqlError {
    SqlError::syntax(at, format!("\"{name}\" cannot be {what}")).hint(format!(
        "a name has a letter, then letters, digits, '_', '$' or '#', at most {NAME_MAX} in all"
    ))
}

const STATEMENTS: &str =
    "CREATE, ALTER or DROP DISKGROUP or USER, ALTER SYSTEM, EXPLAIN WORK, SHOW or SELECT";

/// A number of bytes with one of the suffixes K M G T P E, in any case.
#[must_use]
pub fn parse_size(written: &str) -> Option<u64> {
    let written = written.trim();
    let digits = written.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let shift = match written.get(digits.len()..)?.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        "P" | "PB" | "PIB" => 50,
        "E" | "EB" | "EIB" => 60,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}
