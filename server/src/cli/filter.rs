//! `afd_configure`, `afd_deconfigure`, `afd_state`, `afd_filter`: the write filter, under the names
//! that `asmcmd` has for Oracle's filter driver.

use super::{
    Result,
    context::{Context, Run, asmcmd, quoted},
    table,
};
use clap::{ArgGroup, Args};

/// Load the write filter: from now on, programs other than its engine cannot open a member for
/// writing.
#[derive(Debug, Args)]
pub(super) struct AfdConfigure {
    /// Protect all members: so without a flag.
    #[arg(short = 'e', conflicts_with = "disable")]
    enable: bool,
    /// Load it, and protect nothing yet.
    #[arg(short = 'd')]
    disable: bool,
    /// As asmcmd has it: nothing needs to be forced.
    #[arg(short = 'f', hide = true)]
    force: bool,
}

impl Run for AfdConfigure {
    fn run(&self, context: &mut Context) -> Result<()> {
        context.statement("ALTER SYSTEM FILTER LOAD")?;
        match self.disable {
            true => context.statement("ALTER SYSTEM FILTER DISABLE"),
            false => Ok(()),
        }
    }
}

/// Unload the write filter: nothing of it stays in the kernel.
#[derive(Debug, Args)]
pub(super) struct AfdDeconfigure {
    /// As asmcmd has it: nothing needs to be forced.
    #[arg(short = 'f', hide = true)]
    force: bool,
}

impl Run for AfdDeconfigure {
    fn run(&self, context: &mut Context) -> Result<()> {
        context.statement("ALTER SYSTEM FILTER UNLOAD")
    }
}

/// Say whether the write filter is loaded and protects members. The exit code is 1 if it is not
/// loaded.
#[derive(Debug, Args)]
pub(super) struct AfdState {}

impl Run for AfdState {
    fn run(&self, context: &mut Context) -> Result<()> {
        const STATE: &str =
            "SELECT f.state, f.filtering, f.reason, i.host_name FROM v$asm_filter f, v$instance i";
        let found = context.query(STATE)?;
        let words: Vec<String> =
            found.rows.first().into_iter().flatten().map(table::text).collect();
        let [state, filtering, reason, host] = words.as_slice() else {
            return Err(asmcmd(9520, "AFD is not Loaded"));
        };
        if state == "LOADED" {
            context.say(format!(
                "ASMCMD-9526: The AFD state is '{state}' and filtering is '{filtering}' on host '{host}'"
            ));
            return Ok(());
        }
        let refusal = asmcmd(9520, "AFD is not Loaded");
        Err(match reason.as_str() {
            "" => refusal.hint("afd_configure loads it"),
            reason => refusal.detail(reason),
        })
    }
}

/// Protect members from now on, or let other programs write them: all, or the one at a path.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("whether").required(true)))]
pub(super) struct AfdFilter {
    /// Protect.
    #[arg(short = 'e', group = "whether")]
    enable: bool,
    /// Do not protect.
    #[arg(short = 'd', group = "whether")]
    disable: bool,
    /// A disk.
    path: Option<String>,
}

impl Run for AfdFilter {
    fn run(&self, context: &mut Context) -> Result<()> {
        let verb = if self.enable { "ENABLE" } else { "DISABLE" };
        let disk = self.path.as_deref().map(|path| format!(" DISK {}", quoted(path)));
        context.statement(&format!("ALTER SYSTEM FILTER {verb}{}", disk.unwrap_or_default()))
    }
}
