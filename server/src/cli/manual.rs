//! Texts made from the table of commands: `help`, the manual page, completion for other shells.

use super::{
    Arguments, Result,
    commands::SECTIONS,
    context::{Context, Run},
    interactive, print,
};
use crate::{
    query::{Column, Table, views::Type},
    sql_error::{SqlError, state},
};
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use plinth_engine::admin::Value;
use std::io;

/// Say what commands there are, or what one of them does.
#[derive(Debug, Args)]
#[command(visible_alias = "?")]
pub(super) struct Help {
    command: Option<String>,
}

impl Run for Help {
    fn run(&self, context: &mut Context) -> Result<()> {
        if let Some(name) = &self.command {
            let text = interactive::help_of(name)?;
            if context.json {
                let rows = vec![vec![Value::Text(name.clone()), Value::Text(text)]];
                context.show(
                    &Table { columns: columns(&["Command", "Help"]), rows },
                    Default::default(),
                );
            } else {
                print(&text);
            }
            return Ok(());
        }
        let table = interactive::commands();
        let mut commands = table.get_subcommands();
        let mut rows = Vec::new();
        for (section, count) in SECTIONS {
            for command in commands.by_ref().take(*count) {
                let about = command.get_about().map(ToString::to_string).unwrap_or_default();
                rows.push([(*section).to_owned(), command.get_name().to_owned(), about]);
            }
        }
        if context.json {
            let rows = rows.into_iter().map(|row| row.map(Value::Text).to_vec()).collect();
            context.show(
                &Table { columns: columns(&["Section", "Command", "Help"]), rows },
                Default::default(),
            );
            return Ok(());
        }
        let mut text = String::new();
        let mut last = "";
        for [section, name, about] in &rows {
            if section != last {
                text.push_str(&format!("{}{section}:\n", if last.is_empty() { "" } else { "\n" }));
                last = section;
            }
            text.push_str(&format!("  {name:<16} {about}\n"));
        }
        text.push_str("\n'help COMMAND' says more. Names may have * and %; a line that begins with # is a remark.\n");
        print(&text);
        Ok(())
    }
}

fn columns(names: &[&str]) -> Vec<Column> {
    names.iter().map(|name| Column { name: (*name).to_owned(), kind: Type::Text }).collect()
}

/// Leave the shell.
#[derive(Debug, Args)]
#[command(visible_alias = "quit")]
pub(super) struct Exit {}

impl Run for Exit {
    fn run(&self, context: &mut Context) -> Result<()> {
        context.leave = true;
        Ok(())
    }
}

/// `plinth completions`.
pub(super) fn completions(shell: Shell) {
    let mut bytes = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "plinth", &mut bytes);
    print(&String::from_utf8_lossy(&bytes));
}

/// `plinth man`: one page, with a section for each command.
pub(super) fn page() -> Result<()> {
    let failed =
        |error: io::Error| SqlError::new(state::INTERNAL, format!("the manual page: {error}"));
    let program = Arguments::command().disable_help_subcommand(true);
    let mut page = Vec::new();
    let whole = clap_mangen::Man::new(program.clone()).manual("Plinth");
    whole.render_title(&mut page).map_err(failed)?;
    whole.render_name_section(&mut page).map_err(failed)?;
    whole.render_synopsis_section(&mut page).map_err(failed)?;
    whole.render_description_section(&mut page).map_err(failed)?;
    whole.render_options_section(&mut page).map_err(failed)?;
    let mut text = String::from_utf8_lossy(&page).into_owned();
    text.push_str(".SH COMMANDS\n");
    for command in program.get_subcommands() {
        text.push_str(&section(command, "").map_err(failed)?);
    }
    text.push_str(".SH \"SEE ALSO\"\ndocs/shell.md, docs/sql.md and docs/operating.md of the source tell more.\n");
    print(&text);
    Ok(())
}

/// One command's part of the page, then those of its own commands: their sections become paragraphs
/// under its name, before which stand the commands that it belongs to.
fn section(command: &Command, above: &str) -> io::Result<String> {
    if command.is_hide_set() {
        return Ok(String::new());
    }
    let name = format!("{above}{}", command.get_name());
    let man = clap_mangen::Man::new(command.clone().bin_name(name.as_str()));
    let mut synopsis = Vec::new();
    let mut rest = Vec::new();
    man.render_synopsis_section(&mut synopsis)?;
    man.render_description_section(&mut rest)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut rest)?;
    }
    let body = |bytes: &[u8]| -> String {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.lines()
            .filter(|line| {
                !line.starts_with(".SH") && !line.starts_with(".ie") && !line.starts_with(".el")
            })
            .map(|line| format!("{line}\n"))
            .collect()
    };
    let mut text = format!(".SS {name}\n{}.PP\n{}", body(&synopsis), body(&rest));
    for part in command.get_subcommands() {
        text.push_str(&section(part, &format!("{name} "))?);
    }
    Ok(text)
}
