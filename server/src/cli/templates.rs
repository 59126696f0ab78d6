//! `lstmpl`, `mktmpl`, `chtmpl`, `rmtmpl`: templates, the redundancy, striping and allocation of
//! new files.

use super::{
    Result,
    context::{Context, Headings, Run, group_name, like_or_all, quoted},
    table::Cells,
};
use crate::sql_error::{SqlError, state};
use clap::{Args, ValueEnum};
use plinth_format::is_name;

/// List templates.
#[derive(Debug, Args)]
pub(super) struct Lstmpl {
    /// More of each.
    #[arg(short)]
    l: bool,
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    #[command(flatten)]
    headings: Headings,
    /// Names: * and % are wildcards.
    pattern: Option<String>,
}

impl Run for Lstmpl {
    fn run(&self, context: &mut Context) -> Result<()> {
        let columns = if self.l {
            "g.name AS Group_Name, t.group_number AS Group_Num, t.name AS Name, t.stripe AS Stripe, t.system AS Sys,
                t.redundancy AS Redund, t.primary_region AS PriReg, t.mirror_region AS MirrReg,
                t.allocation AS Allocation"
        } else {
            "t.name AS Name"
        };
        let group = match &self.group {
            Some(group) => {
                format!("t.group_number = {}", context.group_number(&group_name(group)?)?)
            }
            None => "1".to_owned(),
        };
        let listed = context.query(&format!(
            "SELECT {columns} FROM v$asm_template t
             JOIN v$asm_diskgroup_stat g ON g.group_number = t.group_number
             WHERE {group} AND {} ORDER BY g.name, t.name",
            like_or_all("t.name", self.pattern.as_deref())
        ))?;
        context.show_cells(&listed, self.headings, CELLS);
        Ok(())
    }
}

/// INCR XTRANSPORT BACKUPSET is three words in `asmcmd`, too.
const CELLS: Cells = Cells { empty: &[], phrases: &["Name"] };

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Striping {
    Coarse,
    Fine,
}

/// When the device gives a file its space.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Allocation {
    Sparse,
    Preformatted,
}

/// How many mirrors.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Redundancy {
    High,
    Mirror,
    Unprotected,
}

impl Redundancy {
    /// The word that statements have for it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::High => "HIGH",
            Self::Mirror => "MIRROR",
            Self::Unprotected => "UNPROTECTED",
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Region {
    Hot,
    Cold,
}

/// The arguments that describe a template.
#[derive(Debug, Args)]
struct Template {
    #[arg(short = 'G', value_name = "GROUP")]
    group: String,
    #[arg(long, value_name = "STRIPING")]
    striping: Option<Striping>,
    #[arg(long, value_name = "REDUNDANCY")]
    redundancy: Option<Redundancy>,
    /// When thin devices give a file its space: as data is written, or at once, with zeros in it.
    #[arg(long, value_name = "ALLOCATION")]
    allocation: Option<Allocation>,
    /// Where primary extents go.
    #[arg(long, value_name = "REGION")]
    primary: Option<Region>,
    /// Where the other mirrors go.
    #[arg(long, value_name = "REGION")]
    secondary: Option<Region>,
    template: String,
}

impl Template {
    fn attributes(&self) -> Vec<&'static str> {
        let mut words = Vec::new();
        words.extend(self.redundancy.map(Redundancy::word));
        words.extend(self.striping.map(|striping| match striping {
            Striping::Coarse => "COARSE",
            Striping::Fine => "FINE",
        }));
        words.extend(self.allocation.map(|allocation| match allocation {
            Allocation::Sparse => "SPARSE",
            Allocation::Preformatted => "PREFORMATTED",
        }));
        words.extend(self.primary.map(|region| match region {
            Region::Hot => "HOT",
            Region::Cold => "COLD",
        }));
        words.extend(self.secondary.map(|region| match region {
            Region::Hot => "MIRRORHOT",
            Region::Cold => "MIRRORCOLD",
        }));
        words
    }

    /// The statement. Attributes that are not given are the defaults: the group's redundancy,
    /// COARSE and SPARSE.
    fn statement(&self, verb: &str) -> Result<String> {
        let group = group_name(&self.group)?;
        let name = template_name(&self.template)?;
        let mut attributes = self.attributes();
        if attributes.is_empty() {
            attributes.push("COARSE");
        }
        let attributes = attributes.join(" ");
        Ok(format!("ALTER DISKGROUP {group} {verb} TEMPLATE {name} ATTRIBUTES ({attributes})"))
    }
}

/// A template's name as statements have it; some of the system's names have spaces.
pub(super) fn template_name(written: &str) -> Result<String> {
    let name = written.to_uppercase();
    if is_name(&name) {
        return Ok(name);
    }
    if !name.is_empty()
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == ' ' || char == '_')
    {
        return Ok(format!("\"{name}\""));
    }
    Err(SqlError::new("22023", format!("{written:?} cannot be the name of a template")))
}

/// Make a template.
#[derive(Debug, Args)]
pub(super) struct Mktmpl {
    #[command(flatten)]
    template: Template,
}

impl Run for Mktmpl {
    fn run(&self, context: &mut Context) -> Result<()> {
        context.statement(&self.template.statement("ADD")?)
    }
}

/// Change a template.
#[derive(Debug, Args)]
pub(super) struct Chtmpl {
    #[command(flatten)]
    template: Template,
}

impl Run for Chtmpl {
    fn run(&self, context: &mut Context) -> Result<()> {
        if self.template.attributes().is_empty() {
            return Err(SqlError::new(state::SYNTAX, "nothing to change").hint(
                "--striping, --redundancy, --allocation, --primary or --secondary say what",
            ));
        }
        context.statement(&self.template.statement("MODIFY")?)
    }
}

/// Remove a template.
#[derive(Debug, Args)]
pub(super) struct Rmtmpl {
    #[arg(short = 'G', value_name = "GROUP")]
    group: String,
    template: String,
}

impl Run for Rmtmpl {
    fn run(&self, context: &mut Context) -> Result<()> {
        let group = group_name(&self.group)?;
        let name = template_name(&self.template)?;
        context.statement(&format!("ALTER DISKGROUP {group} DROP TEMPLATE {name}"))
    }
}

/// A clause of a statement with a word and a quoted text: `USAGE 'x'`; empty if there is no text.
pub(super) fn clause(word: &str, text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!(" {word} {}", quoted(text)))
}
