//! Statements on names: templates, directories, aliases, files.
//!
//! ```text
//!   {ADD | MODIFY | ALTER} TEMPLATE
//!       t ATTRIBUTE[S] ( [UNPROTECTED | MIRROR | HIGH] [COARSE | FINE]
//!       [SPARSE | PREFORMATTED] ) [, t ATTRIBUTE[S] (...)]
//!   DROP TEMPLATE t [, t]
//!   ADD DIRECTORY 'd' [, 'd']
//!   DROP DIRECTORY 'd' [FORCE | NOFORCE] [, ...]
//!   RENAME DIRECTORY 'a' TO 'b' [, ...]
//!   ADD ALIAS 'a' FOR 'f' [, ...]
//!   DROP ALIAS 'a' [, ...]
//!   RENAME ALIAS 'a' TO 'b' [, ...]
//!   DROP FILE 'f' [, 'f']
//! ```

use super::{
    super::statement::{Alter, At, Places, Statement},
    Kind, Parser, Result,
};
use crate::sql_error::{SqlError, state};
use plinth_engine::admin::{Command, NameOrder, Template};

impl Parser<'_> {
    fn follows(&self, verb: &str, noun: &str) -> bool {
        self.is(verb) && self.tokens.get(self.next + 1).is_some_and(|token| token.is(noun))
    }

    fn take_both(&mut self, verb: &str, noun: &str) -> bool {
        let found = self.follows(verb, noun);
        self.next += 2 * usize::from(found);
        found
    }

    /// A statement on names, if such a clause comes next.
    pub(super) fn names_clause(&mut self, group: &At<String>) -> Result<Option<Statement>> {
        let at = self.here();
        let mut places = Vec::new();
        let order = if self.take_both("ADD", "TEMPLATE") {
            NameOrder::AddTemplates(self.templates(&mut places)?)
        } else if self.take_both("MODIFY", "TEMPLATE") || self.take_both("ALTER", "TEMPLATE") {
            NameOrder::ModifyTemplates(self.templates(&mut places)?)
        } else if self.take_both("DROP", "TEMPLATE") {
            NameOrder::DropTemplates(self.listed(|parser| parser.template_name(&mut places))?)
        } else if self.take_both("ADD", "DIRECTORY") {
            NameOrder::AddDirectories(self.listed(|parser| parser.file_name(&mut places))?)
        } else if self.take_both("DROP", "DIRECTORY") {
            NameOrder::DropDirectories(
                self.listed(|parser| Ok((parser.file_name(&mut places)?, parser.force())))?,
            )
        } else if self.take_both("RENAME", "DIRECTORY") {
            NameOrder::RenameDirectories(self.listed(|parser| parser.two_names("TO", &mut places))?)
        } else if self.take_both("ADD", "ALIAS") {
            NameOrder::AddAliases(self.listed(|parser| parser.two_names("FOR", &mut places))?)
        } else if self.take_both("DROP", "ALIAS") {
            NameOrder::DropAliases(self.listed(|parser| parser.file_name(&mut places))?)
        } else if self.take_both("RENAME", "ALIAS") {
            NameOrder::RenameAliases(self.listed(|parser| parser.two_names("TO", &mut places))?)
        } else if self.take_both("DROP", "FILE") {
            NameOrder::DropFiles(self.listed(|parser| parser.file_name(&mut places))?)
        } else {
            return Ok(None);
        };
        let command = Command::Names { order, uid: None };
        Ok(Some(Statement::Alter(Alter::one(group.clone(), command).at(at).places(places))))
    }

    /// A list of one or more, separated by commas.
    fn listed<T>(&mut self, mut one: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = vec![one(self)?];
        while self.take_symbol(",") {
            all.push(one(self)?);
        }
        Ok(all)
    }

    fn file_name(&mut self, places: &mut Places) -> Result<String> {
        let name = self.string("a name in single quotes, such as '+DATA/directory/file'")?;
        places.push((name.value.clone(), name.at));
        Ok(name.value)
    }

    fn two_names(&mut self, between: &str, places: &mut Places) -> Result<(String, String)> {
        let one = self.file_name(places)?;
        self.need(between)?;
        Ok((one, self.file_name(places)?))
    }

    /// A template's name. Some of the system's templates have names with spaces, in quotes.
    fn template_name(&mut self, places: &mut Places) -> Result<String> {
        let at = self.here();
        let name = match self.peek().map(|token| &token.kind) {
            Some(Kind::Word(name) | Kind::Quoted(name) | Kind::String(name)) => name.to_uppercase(),
            _ => return Err(self.expected("the name of a template")),
        };
        self.next += 1;
        places.push((name.clone(), at));
        Ok(name)
    }

    fn templates(&mut self, places: &mut Places) -> Result<Vec<Template>> {
        self.listed(|parser| parser.template(places))
    }

    fn template(&mut self, places: &mut Places) -> Result<Template> {
        let mut template = Template {
            name: self.template_name(places)?,
            mirrors: None,
            fine: None,
            preformatted: None,
        };
        if !self.take("ATTRIBUTES") && !self.take("ATTRIBUTE") {
            return Err(self.expected("ATTRIBUTES"));
        }
        if !self.take_symbol("(") {
            return Err(self.expected("'('"));
        }
        while !self.take_symbol(")") {
            let mirrors = [("UNPROTECTED", 1), ("MIRROR", 2), ("HIGH", 3)];
            let mirrors =
                mirrors.into_iter().find(|(word, _)| self.is(word)).map(|(_, mirrors)| mirrors);
            let either = |no: &str, yes: &str| {
                if self.is(yes) { Some(true) } else { self.is(no).then_some(false) }
            };
            let (fine, preformatted) = (either("COARSE", "FINE"), either("SPARSE", "PREFORMATTED"));
            if let (Some(mirrors), None) = (mirrors, template.mirrors) {
                template.mirrors = Some(mirrors);
            } else if let (Some(fine), None) = (fine, template.fine) {
                template.fine = Some(fine);
            } else if let (Some(preformatted), None) = (preformatted, template.preformatted) {
                template.preformatted = Some(preformatted);
            } else if let Some(refusal) = self.refused_attribute() {
                return Err(refusal);
            } else if !(self.is("COLD") || self.is("MIRRORCOLD")) {
                return Err(self.expected(
                    "UNPROTECTED, MIRROR or HIGH, COARSE or FINE, SPARSE or PREFORMATTED, each once, or ')'",
                ));
            }
            self.next += 1;
        }
        Ok(template)
    }

    /// Refuses attributes that ASM has for templates and a group here cannot have.
    fn refused_attribute(&self) -> Option<SqlError> {
        let refuse = |text: &str, hint: &str| {
            SqlError::new(state::NOT_SUPPORTED, text).at(self.here()).hint(hint)
        };
        if self.is("PARITY") || self.is("DOUBLE") {
            return Some(refuse(
                "PARITY and DOUBLE are for disk groups of FLEX redundancy, which there are none of",
                "UNPROTECTED, MIRROR and HIGH are what there is",
            ));
        }
        if self.is("HOT") || self.is("MIRRORHOT") {
            return Some(refuse(
                "no region of a disk is hotter than another: where a file lies does not depend on how it is used",
                "leave it out, or say COLD, which is what all files are",
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse;

    fn order(clause: &str) -> NameOrder {
        let text = format!("ALTER DISKGROUP data {clause}");
        let mut statements =
            parse(&text).unwrap_or_else(|error| panic!("{text}: {error} at {:?}", error.at));
        match statements.remove(0) {
            Statement::Alter(Alter { command: Command::Names { order, .. }, places, .. }) => {
                assert!(!places.is_empty(), "{text}");
                order
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn statements_on_names_say_all_they_can_say() {
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let pair = |one: &str, other: &str| vec![(one.to_owned(), other.to_owned())];
        let template = |name: &str, mirrors, fine, preformatted| Template {
            name: name.to_owned(),
            mirrors,
            fine,
            preformatted,
        };
        let cases = [
            (
                "add directory '+DATA/a', '+DATA/a/b'",
                NameOrder::AddDirectories(texts(&["+DATA/a", "+DATA/a/b"])),
            ),
            (
                "DROP DIRECTORY '+DATA/a' FORCE, '+DATA/b' NOFORCE, '+DATA/c'",
                NameOrder::DropDirectories(vec![
                    ("+DATA/a".into(), true),
                    ("+DATA/b".into(), false),
                    ("+DATA/c".into(), false),
                ]),
            ),
            (
                "RENAME DIRECTORY '+DATA/a' TO '+DATA/b'",
                NameOrder::RenameDirectories(pair("+DATA/a", "+DATA/b")),
            ),
            (
                "ADD ALIAS '+DATA/a' FOR '+DATA.259.1'",
                NameOrder::AddAliases(pair("+DATA/a", "+DATA.259.1")),
            ),
            ("DROP ALIAS '+DATA/a'", NameOrder::DropAliases(texts(&["+DATA/a"]))),
            (
                "RENAME ALIAS '+DATA/a' TO '+DATA/b'",
                NameOrder::RenameAliases(pair("+DATA/a", "+DATA/b")),
            ),
            (
                "DROP FILE '+DATA/a', '+DATA/b'",
                NameOrder::DropFiles(texts(&["+DATA/a", "+DATA/b"])),
            ),
            (
                "ADD TEMPLATE t ATTRIBUTES (MIRROR FINE), u ATTRIBUTE ()",
                NameOrder::AddTemplates(vec![
                    template("T", Some(2), Some(true), None),
                    template("U", None, None, None),
                ]),
            ),
            (
                "MODIFY TEMPLATE datafile ATTRIBUTES (COARSE HIGH COLD MIRRORCOLD)",
                NameOrder::ModifyTemplates(vec![template("DATAFILE", Some(3), Some(false), None)]),
            ),
            (
                "ADD TEMPLATE t ATTRIBUTES (PREFORMATTED), u ATTRIBUTES (sparse fine)",
                NameOrder::AddTemplates(vec![
                    template("T", None, None, Some(true)),
                    template("U", None, Some(true), Some(false)),
                ]),
            ),
            (
                "alter template \"incr xtransport backupset\" attributes (unprotected)",
                NameOrder::ModifyTemplates(vec![template(
                    "INCR XTRANSPORT BACKUPSET",
                    Some(1),
                    None,
                    None,
                )]),
            ),
            ("DROP TEMPLATE t, u", NameOrder::DropTemplates(texts(&["T", "U"]))),
        ];
        for (clause, expected) in cases {
            assert_eq!(order(clause), expected, "{clause}");
        }
    }

    #[test]
    fn errors_in_names_point_at_their_place() {
        for (marked, what) in [
            ("ADD TEMPLATE t <MIRROR", "expected ATTRIBUTES"),
            ("ADD TEMPLATE t ATTRIBUTES (MIRROR <MIRROR)", "each once"),
            ("ADD TEMPLATE t ATTRIBUTES (MIRROR <HIGH)", "each once"),
            ("ADD TEMPLATE t ATTRIBUTES (<PARITY)", "FLEX"),
            ("ADD TEMPLATE t ATTRIBUTES (<HOT)", "hotter"),
            ("ADD TEMPLATE t ATTRIBUTES (SPARSE <PREFORMATTED)", "each once"),
            ("ADD TEMPLATE t ATTRIBUTES (FINE<", "or ')'"),
            ("DROP DIRECTORY <d", "in single quotes"),
            ("ADD ALIAS '+DATA/a' <TO '+DATA/b'", "expected FOR"),
            ("RENAME ALIAS '+DATA/a' <FOR '+DATA/b'", "expected TO"),
            ("DROP FILE '+DATA/a' <FORCE", "expected the end"),
        ] {
            let text = format!("ALTER DISKGROUP data {marked}");
            let at = text.find('<').expect("a mark");
            let error = parse(&text.replace('<', "")).expect_err(&text);
            assert!(error.message.contains(what), "{text}: {error}");
            assert_eq!(error.at, Some(at), "{text}: {error}");
        }
    }
}
