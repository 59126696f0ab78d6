//! Commands of `asmcmd` that the shell does not have, each with what is used instead. They are
//! refused like every unknown command, with that as the hint.

const NO_LABELS: &str = "disks have no labels: ALTER DISKGROUP ... RENAME DISK of sql gives names";

/// A name, or with a `*` at its end the beginning of names; and the remedy.
const ABSENT: &[(&str, &str)] = &[
    ("afd_l*", NO_LABELS),
    ("afd_unlabel", NO_LABELS),
    ("afd_scan", NO_LABELS),
    ("afd_refresh", NO_LABELS),
    ("afd_ds*", NO_LABELS),
    ("afd_di", "devices' own checksums are not asked: each block has one of Plinth's"),
    ("amdu_extract", "plinth check and plinth dump read disks of a group that is not mounted"),
    ("startup", "plinth serve starts the instance, or systemctl start plinth"),
    ("shutdown", "plinth shutdown, outside of the shell, ends the engines and the instance"),
    ("serve", "plinth serve, outside of the shell, starts the instance"),
    ("dump", "plinth dump, outside of the shell"),
    ("man", "plinth man, outside of the shell"),
    ("completions", "plinth completions, outside of the shell"),
    ("orapwusr", "CREATE USER, ALTER USER and DROP USER of sql change users with a password"),
    ("passwd", "users of a disk group are users of the host, and have the host's password"),
    (
        "pwcreate",
        "the file with the passwords is there from the start: CREATE USER of sql adds one",
    ),
    ("pwcopy", "pwget names the file with the passwords: spbackup copies it"),
    ("pwmove", "pwget names the file with the passwords: plinth serve --state says where it is"),
    ("pwdelete", "DROP USER of sql takes a password away"),
    ("mkcc", "there are no clusters, and no credentials of clusters"),
    ("chkcc", "there are no clusters, and no credentials of clusters"),
    ("lscc", "there are no clusters, and no credentials of clusters"),
    ("lscr", "there are no clusters, and no credentials of clusters"),
    ("rmcc", "there are no clusters, and no credentials of clusters"),
    ("mkfg", "there are no file groups: templates say how files are mirrored (mktmpl)"),
    ("chfg", "there are no file groups: templates say how files are mirrored (chtmpl)"),
    ("rmfg", "there are no file groups: templates say how files are mirrored (rmtmpl)"),
    ("lsfg", "there are no file groups: templates say how files are mirrored (lstmpl)"),
    ("mvfg", "there are no file groups"),
    ("mvfile", "there are no file groups"),
    ("mkqg", "there are no quotas"),
    ("chqg", "there are no quotas"),
    ("rmqg", "there are no quotas"),
    ("lsqg", "there are no quotas"),
    ("setsparseparent", "there are no sparse disk groups"),
    ("stamp", NO_LABELS),
    ("stamplist", "disks have no labels: lsdsk -k lists their names"),
    ("mapblk", "mapextent says where an extent is"),
];

/// The remedy for a command that only `asmcmd` has.
pub(super) fn instead(name: &str) -> Option<&'static str> {
    let is_it = |known: &str| match known.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == known,
    };
    ABSENT.iter().find(|(known, _)| is_it(known)).map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::interactive;

    #[test]
    fn no_command_of_the_shell_is_called_absent() {
        for command in interactive::commands().get_subcommands() {
            assert_eq!(instead(command.get_name()), None, "{}", command.get_name());
        }
        assert!(instead("afd_lslib").is_some() && instead("stamp").is_some());
        assert_eq!(instead("nothing"), None);
    }
}
