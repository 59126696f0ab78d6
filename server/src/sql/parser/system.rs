//! `ALTER SYSTEM SET`, `RESET`, `LABEL` and `FILTER`, and `ALTER SESSION`.

use super::{Parser, Result};
use crate::{
    sql::{
        statement::{At, FilterChange, LabelOrder, Statement, SystemParameter},
        tokens::Kind,
    },
    sql_error::{SqlError, state},
};
use plinth_engine::admin::LabelPermission;

/// The only instance that a statement can be for.
const INSTANCE: &str = "+ASM";

impl Parser<'_> {
    /// `ALTER SYSTEM {SET name = value, ... | RESET name} [option ...]`, after its second word.
    pub(super) fn alter_system(&mut self) -> Result<Statement> {
        if let Some(refusal) = self.refuse_of_system() {
            return Err(refusal);
        }
        if self.take("FILTER") {
            return self.filter().map(Statement::Filter);
        }
        if self.take("RESET") {
            let parameter = self.system_parameter()?;
            let comment = self.system_options()?;
            return Ok(Statement::AlterSystem { parameter, value: None, comment });
        }
        if self.take("LABEL") {
            return self.alter_label().map(Statement::AlterLabel);
        }
        if !self.take("SET") {
            return Err(self.expected("SET, RESET, LABEL or FILTER"));
        }
        let parameter = self.system_parameter()?;
        if !self.take_symbol("=") && !self.take("TO") {
            return Err(self.expected("'='"));
        }
        let value = Some(self.system_value(parameter.value)?);
        let comment = self.system_options()?;
        Ok(Statement::AlterSystem { parameter, value, comment })
    }

    /// `{LOAD | UNLOAD | {ENABLE | DISABLE} [DISK 'path']}`
    fn filter(&mut self) -> Result<FilterChange> {
        if self.take("LOAD") {
            return Ok(FilterChange::Load);
        }
        if self.take("UNLOAD") {
            return Ok(FilterChange::Unload);
        }
        let enable = self.take("ENABLE");
        if !enable && !self.take("DISABLE") {
            return Err(self.expected("LOAD, UNLOAD, ENABLE or DISABLE"));
        }
        let has_disk = self.take("DISK");
        let disk = has_disk.then(|| self.path("the path of a disk, in single quotes"));
        Ok(FilterChange::Set { enable, disk: disk.transpose()? })
    }

    /// `LABEL {SET 'label' TO 'path' [RENAME] [MIGRATE] [FORCE] | CLEAR 'label' | SCAN
    /// ['patterns']}`, after its first word.
    fn alter_label(&mut self) -> Result<LabelOrder> {
        if self.take("SCAN") {
            let has_patterns =
                matches!(self.peek().map(|token| &token.kind), Some(Kind::String(_)));
            let patterns = has_patterns.then(|| self.string("patterns in single quotes"));
            return Ok(LabelOrder::Scan(patterns.transpose()?));
        }
        if self.take("CLEAR") {
            return self.string("a label in single quotes").map(LabelOrder::Clear);
        }
        if !self.take("SET") {
            return Err(self.expected("SET, CLEAR or SCAN"));
        }
        let label = self.string("a label in single quotes")?;
        self.need("TO")?;
        let path = self.path("a path in single quotes")?;
        let mut permission = LabelPermission::default();
        loop {
            let flag = match () {
                () if self.take("RENAME") => &mut permission.rename,
                () if self.take("MIGRATE") => &mut permission.migrate,
                () if self.take("FORCE") => &mut permission.force,
                () => return Ok(LabelOrder::Set { label, path, permission }),
            };
            *flag = true;
        }
    }

    fn system_parameter(&mut self) -> Result<At<SystemParameter>> {
        let at = self.here();
        let known = SystemParameter::ALL;
        let found = known.into_iter().find(|one| self.take(&one.name().to_ascii_uppercase()));
        let names: Vec<&str> = known.iter().map(|one| one.name()).collect();
        match found {
            Some(value) => Ok(At { value, at }),
            None => Err(match self.peek().map(|token| &token.kind) {
                Some(Kind::Word(name) | Kind::Quoted(name)) => SqlError::new(
                    state::UNKNOWN_SETTING,
                    format!("there is no parameter \"{name}\" that ALTER SYSTEM sets"),
                )
                .detail("Unknown, which Oracle calls ORA-02065")
                .hint(format!("it sets {}", names.join(", ")))
                .at(at),
                _ => self.expected(&names.join(", ")),
            }),
        }
    }

    fn system_value(&mut self, parameter: SystemParameter) -> Result<At<String>> {
        let what = match parameter {
            SystemParameter::Diskstring | SystemParameter::LabelScan => {
                "paths with wildcards, in single quotes"
            }
            SystemParameter::Preferred => "GROUP.FAILGROUP, in single quotes",
            SystemParameter::PowerLimit => {
                let at = self.here();
                if let Some(Kind::Number(digits)) = self.peek().map(|token| &token.kind) {
                    let value = digits.clone();
                    self.next += 1;
                    return Ok(At { value, at });
                }
                return self.string("a number from 0 to 1024");
            }
        };
        let mut value = self.string(what)?;
        // ASM's own syntax is a list of strings.
        while self.take_symbol(",") {
            let more = self.string(what)?;
            value.value = format!("{},{}", value.value, more.value);
        }
        Ok(value)
    }

    /// `[COMMENT = 'text'] [DEFERRED] [SCOPE = {MEMORY | SPFILE | BOTH}] [SID = {'*' | 'sid'}]`, in
    /// any order: the comment.
    fn system_options(&mut self) -> Result<Option<String>> {
        let mut comment = None;
        let mut seen = Vec::new();
        while let Some(token) = self.peek() {
            let Kind::Word(word) = &token.kind else { break };
            let word = word.to_ascii_uppercase();
            if !["COMMENT", "DEFERRED", "SCOPE", "SID"].contains(&word.as_str())
                || seen.contains(&word)
            {
                return Err(self.expected("COMMENT, SCOPE, SID or the end of the statement"));
            }
            self.next += 1;
            if word != "DEFERRED" && !self.take_symbol("=") {
                return Err(self.expected("'='"));
            }
            match word.as_str() {
                "COMMENT" => comment = Some(self.string("a comment in single quotes")?.value),
                "SCOPE" => self.scope()?,
                "SID" => self.sid()?,
                _ => {}
            }
            seen.push(word);
        }
        Ok(comment)
    }

    fn scope(&mut self) -> Result<()> {
        if self.take("BOTH") || self.take("SPFILE") || self.take("MEMORY") {
            return Ok(());
        }
        Err(self.expected("BOTH, SPFILE or MEMORY"))
    }

    fn sid(&mut self) -> Result<()> {
        let sid = self.string("'*' or the name of the instance, in single quotes")?;
        if sid.value == "*" || sid.value.eq_ignore_ascii_case(INSTANCE) {
            return Ok(());
        }
        let refusal = SqlError::new("22023", format!("there is no instance '{}'", sid.value));
        Err(refusal.at(sid.at).hint(format!("this one is '{INSTANCE}'; '*' means all")))
    }

    /// `ALTER SESSION SET name = value [name = value ...]`, after its second word; other forms
    /// change nothing.
    pub(super) fn alter_session(&mut self) -> Result<Statement> {
        const OTHERS: [&str; 6] = ["ADVISE", "CLOSE", "DISABLE", "ENABLE", "FORCE", "SYNC"];
        if OTHERS.iter().any(|word| self.is(word)) {
            return Ok(self.ignore_rest(Statement::Ignored("ALTER SESSION")));
        }
        self.need("SET")?;
        let mut settings = Vec::new();
        while self.peek().is_some() || settings.is_empty() {
            let at = self.here();
            let name = match self.peek().map(|token| &token.kind) {
                Some(Kind::Word(name) | Kind::Quoted(name)) => name.to_lowercase(),
                _ => return Err(self.expected("the name of a parameter")),
            };
            self.next += 1;
            // SET EVENTS '10046 trace name context forever'
            if !self.take_symbol("=") && name != "events" {
                return Err(self.expected("'='"));
            }
            let value = self.session_value()?;
            settings.push((At { value: name, at }, value));
            self.take_symbol(",");
        }
        Ok(Statement::AlterSession(settings))
    }

    /// A string, a word, or a number with or without a sign.
    fn session_value(&mut self) -> Result<At<String>> {
        let at = self.here();
        let minus = if self.take_symbol("-") { "-" } else { "" };
        let value = match self.peek().map(|token| &token.kind) {
            Some(Kind::Number(value)) => format!("{minus}{value}"),
            Some(Kind::String(value) | Kind::Word(value) | Kind::Quoted(value))
                if minus.is_empty() =>
            {
                value.clone()
            }
            _ => return Err(self.expected("a value")),
        };
        if value.contains('\0') {
            return Err(SqlError::new(state::SYNTAX, "a value holds a zero byte").at(at));
        }
        self.next += 1;
        Ok(At { value, at })
    }
}
