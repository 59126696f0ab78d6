//! `cd`, `pwd`, `mkalias`, `rmalias`: names, and the shell's current directory.

use super::{
    Result,
    asm_path::{self, AsmPath},
    context::{Context, Run, quoted},
};
use crate::sql_error::SqlError;
use clap::Args;

/// Go to another directory.
#[derive(Debug, Args)]
pub(super) struct Cd {
    /// As in +DATA/db, or from here: db, .., +. Nothing: +.
    directory: Option<String>,
}

impl Run for Cd {
    fn run(&self, context: &mut Context) -> Result<()> {
        let place = context.place(self.directory.as_deref().unwrap_or("+"));
        if place.group.is_none() {
            context.here = AsmPath::default();
            return Ok(());
        }
        let found = asm_path::expand_one(context, &place)?;
        context.here =
            asm_path::directory(&context.engine(found.place.group()?)?, &found.place)?.place;
        Ok(())
    }
}

/// Say where the shell stands.
#[derive(Debug, Args)]
pub(super) struct Pwd {}

impl Run for Pwd {
    fn run(&self, context: &mut Context) -> Result<()> {
        if context.json {
            super::print(&format!(
                "{:#}\n",
                serde_json::json!([{ "Directory": context.here.to_string() }])
            ));
        } else {
            context.say(&context.here);
        }
        Ok(())
    }
}

/// Give a file one more name.
#[derive(Debug, Args)]
pub(super) struct Mkalias {
    file: String,
    alias: String,
}

impl Run for Mkalias {
    fn run(&self, context: &mut Context) -> Result<()> {
        let file = asm_path::expand_one(context, &context.place(&self.file))?;
        let group = file.place.group()?.to_owned();
        let engine = context.engine(&group)?;
        let alias = context.place(&self.alias);
        if alias.group.as_deref() != Some(&group) {
            return Err(SqlError::new(
                "22023",
                format!("{alias} is not in disk group {group}, where the file is"),
            ));
        }
        let alias = asm_path::new_name(&engine, &alias)?;
        let (alias, file) = (quoted(&alias.to_string()), quoted(&file.place.to_string()));
        context.statement(&format!("ALTER DISKGROUP {group} ADD ALIAS {alias} FOR {file}"))
    }
}

/// Take away names that were given with mkalias; the files stay.
#[derive(Debug, Args)]
pub(super) struct Rmalias {
    /// Of directories: all such names in them, and the directories.
    #[arg(short)]
    recursive: bool,
    #[arg(required = true)]
    aliases: Vec<String>,
}

impl Run for Rmalias {
    fn run(&self, context: &mut Context) -> Result<()> {
        for alias in &self.aliases {
            for found in asm_path::expand(context, &context.place(alias))? {
                let group = found.place.group()?.to_owned();
                let name = quoted(&found.place.to_string());
                let statement = match (found.is_directory(), self.recursive) {
                    (true, true) => format!("ALTER DISKGROUP {group} DROP DIRECTORY {name} FORCE"),
                    (true, false) => {
                        return Err(SqlError::new(
                            "22023",
                            format!("{} is a directory", found.place),
                        )
                        .hint("-r takes away what is in it, too"));
                    }
                    (false, _) => format!("ALTER DISKGROUP {group} DROP ALIAS {name}"),
                };
                context.statement(&statement)?;
            }
        }
        Ok(())
    }
}
