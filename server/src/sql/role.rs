//! The roles of clients, and the least role that each statement needs.
//!
//! ```text
//!   LOOK        SELECT and SHOW
//!   OPERATE     also what ASM's SYSOPER may: MOUNT, DISMOUNT, ONLINE, OFFLINE, REBALANCE,
//!               CHECK NOREPAIR
//!   ADMINISTER  everything
//! ```
//!
//! The match below has no wildcard: a new kind of statement does not compile until its role is
//! decided.

use super::{Statement, statement::Alter};
use plinth_engine::admin::Command;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A role includes all roles before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Role {
    Look,
    Operate,
    Administer,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Look => "LOOK",
            Self::Operate => "OPERATE",
            Self::Administer => "ADMINISTER",
        })
    }
}

const fn of_command(command: &Command) -> Role {
    match command {
        Command::Online { .. }
        | Command::Offline { .. }
        | Command::Rebalance(_)
        | Command::Check { repair: false, .. } => Role::Operate,
        Command::Exchange { .. }
        | Command::Estimate(_)
        | Command::Undrop
        | Command::Replace { .. }
        | Command::Rename(_)
        | Command::Label { .. }
        | Command::Resize { .. }
        | Command::Convert { .. }
        | Command::Check { repair: true, .. }
        | Command::Scrub(_)
        | Command::StopScrub
        | Command::Reclaim(_)
        | Command::StopReclaim
        | Command::Reclaimable(_)
        | Command::Access(_)
        | Command::Volume(_)
        | Command::Names { .. }
        | Command::SetAttribute { .. } => Role::Administer,
    }
}

impl Statement {
    /// The least role that may run the statement.
    #[must_use]
    pub const fn needs(&self) -> Role {
        match self {
            Self::Mount { .. } | Self::Dismount { .. } => Role::Operate,
            Self::Alter(Alter { command, .. })
            | Self::ExplainWork { alter: Alter { command, .. }, .. } => of_command(command),
            Self::CreateGroup { .. }
            | Self::DropGroup { .. }
            | Self::AlterSystem { .. }
            | Self::Filter(_)
            | Self::AlterLabel(_)
            | Self::CreateUser { .. }
            | Self::AlterUser { .. }
            | Self::DropUser(_) => Role::Administer,
            Self::Show(_)
            | Self::ShowAll
            | Self::ShowParameter { .. }
            | Self::AlterSession(_)
            | Self::Set { .. }
            | Self::Deallocate(_)
            | Self::Discard
            | Self::Ignored(_)
            | Self::Begin
            | Self::Commit
            | Self::Rollback
            | Self::Query(_) => Role::Look,
        }
    }

    /// Whether the statement changes groups, the instance or its users: such a statement cannot be
    /// rolled back, and it goes on when its client has disconnected.
    #[must_use]
    pub const fn acts(&self) -> bool {
        !matches!(self.needs(), Role::Look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse;
    use plinth_engine::admin::LabelPermission;

    /// One statement of each kind, and more where the role depends on its clauses.
    const ONE_OF_EACH: &[(&str, Role)] = &[
        ("CREATE DISKGROUP d DISK '/x'", Role::Administer),
        ("DROP DISKGROUP d", Role::Administer),
        ("ALTER DISKGROUP d MOUNT", Role::Operate),
        ("ALTER DISKGROUP ALL DISMOUNT", Role::Operate),
        ("ALTER DISKGROUP d OFFLINE DISK a", Role::Operate),
        ("ALTER DISKGROUP d ONLINE ALL", Role::Operate),
        ("ALTER DISKGROUP d DROP DISK a", Role::Administer),
        ("ALTER DISKGROUP ALL UNDROP DISKS", Role::Administer),
        ("ALTER DISKGROUP d REPLACE DISK a WITH '/x'", Role::Administer),
        ("ALTER DISKGROUP d RENAME DISKS ALL", Role::Administer),
        ("ALTER DISKGROUP d RESIZE ALL", Role::Administer),
        ("ALTER DISKGROUP d CONVERT REDUNDANCY TO HIGH", Role::Administer),
        ("ALTER DISKGROUP d REBALANCE POWER 4", Role::Operate),
        ("EXPLAIN WORK FOR ALTER DISKGROUP d DROP DISK a", Role::Administer),
        ("ALTER DISKGROUP d CHECK NOREPAIR", Role::Operate),
        ("ALTER DISKGROUP d CHECK REPAIR", Role::Administer),
        ("ALTER DISKGROUP d SCRUB", Role::Administer),
        ("ALTER DISKGROUP d SCRUB STOP", Role::Administer),
        ("ALTER DISKGROUP d RECLAIM ZERO POWER 5", Role::Administer),
        ("ALTER DISKGROUP d RECLAIM STOP", Role::Administer),
        ("EXPLAIN WORK FOR ALTER DISKGROUP d RECLAIM", Role::Administer),
        ("ALTER DISKGROUP d ADD USER 'a'", Role::Administer),
        ("ALTER DISKGROUP d ADD VOLUME v SIZE 1G", Role::Administer),
        ("ALTER DISKGROUP ALL ENABLE VOLUME ALL", Role::Administer),
        ("ALTER DISKGROUP d ADD DIRECTORY '+d/x'", Role::Administer),
        ("ALTER DISKGROUP d SET ATTRIBUTE 'disk_timeout' = '5'", Role::Administer),
        ("ALTER SYSTEM SET asm_diskstring = '/x'", Role::Administer),
        ("ALTER SYSTEM LABEL SET 'l' TO '/dev/x'", Role::Administer),
        ("ALTER SYSTEM LABEL SCAN", Role::Administer),
        ("ALTER SYSTEM RESET asm_preferred_read_failure_groups", Role::Administer),
        ("CREATE USER a PASSWORD 'b'", Role::Administer),
        ("ALTER USER a PASSWORD 'b'", Role::Administer),
        ("DROP USER a", Role::Administer),
        ("SHOW timezone", Role::Look),
        ("SHOW ALL", Role::Look),
        ("SHOW PARAMETER power", Role::Look),
        ("ALTER SESSION SET nls_date_format = 'YYYY'", Role::Look),
        ("SET timezone = 'UTC'", Role::Look),
        ("DEALLOCATE ALL", Role::Look),
        ("DISCARD ALL", Role::Look),
        ("ALTER SYSTEM FILTER LOAD", Role::Administer),
        ("SAVEPOINT a", Role::Look),
        ("BEGIN", Role::Look),
        ("COMMIT", Role::Look),
        ("ROLLBACK", Role::Look),
        ("SELECT 1", Role::Look),
    ];

    /// The number of kinds.
    const KINDS: usize = 42;

    /// The number of a kind. A new kind must be added here and to `ONE_OF_EACH`.
    fn kind(statement: &Statement) -> usize {
        match statement {
            Statement::CreateGroup { .. } => 0,
            Statement::DropGroup { .. } => 1,
            Statement::Mount { .. } => 2,
            Statement::Dismount { .. } => 3,
            Statement::Alter(alter) => kind_of_command(&alter.command),
            Statement::ExplainWork { alter, .. } => kind_of_command(&alter.command),
            Statement::AlterSystem { .. } => 21,
            Statement::AlterLabel(_) => 37,
            Statement::AlterSession(_) => 22,
            Statement::CreateUser { .. } => 23,
            Statement::AlterUser { .. } => 24,
            Statement::DropUser(_) => 25,
            Statement::Show(_) => 26,
            Statement::ShowAll => 27,
            Statement::Set { .. } => 28,
            Statement::Deallocate(_) => 29,
            Statement::Discard => 30,
            Statement::Ignored(_) => 31,
            Statement::Begin => 32,
            Statement::Commit => 33,
            Statement::Rollback => 34,
            Statement::Query(_) => 35,
            Statement::ShowParameter { .. } => 36,
            Statement::Filter(_) => 38,
        }
    }

    fn kind_of_command(command: &Command) -> usize {
        match command {
            Command::Offline { .. } => 4,
            Command::Online { .. } => 5,
            Command::Exchange { .. } => 6,
            Command::Estimate(_) => 7,
            Command::Undrop => 8,
            Command::Replace { .. } => 9,
            Command::Rename(_) => 10,
            Command::Label { .. } => unreachable!("no text means it"),
            Command::Resize { .. } => 11,
            Command::Convert { .. } => 12,
            Command::Rebalance(_) => 13,
            Command::Check { .. } => 14,
            Command::Scrub(_) => 15,
            Command::StopScrub => 16,
            Command::Reclaim(_) => 39,
            Command::StopReclaim => 40,
            Command::Reclaimable(_) => 41,
            Command::Access(_) => 17,
            Command::Volume(_) => 18,
            Command::Names { .. } => 19,
            Command::SetAttribute { .. } => 20,
        }
    }

    #[test]
    fn each_statement_needs_its_role() {
        let mut seen = [false; KINDS];
        for (text, role) in ONE_OF_EACH {
            let statements = parse(text).expect(text);
            assert_eq!(statements[0].needs(), *role, "{text}");
            assert_eq!(statements[0].acts(), *role > Role::Look, "{text}");
            seen[kind(&statements[0])] = true;
        }
        // The instance makes it of a statement on labels, and no text means it.
        assert_eq!(
            of_command(&Command::Label {
                disk: String::new(),
                label: String::new(),
                permission: LabelPermission::default(),
            }),
            Role::Administer
        );
        assert!(seen.iter().all(|seen| *seen), "not one of each kind: {seen:?}");
        assert!(Role::Look < Role::Operate && Role::Operate < Role::Administer);
    }
}
