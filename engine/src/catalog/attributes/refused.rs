//! Attributes of ASM that a group of Plinth does not have: the reason, and the alternative.

use crate::admin::{AdminError, Code};

/// The beginning of a name, and the reason: the first that matches.
const REASONS: &[(&str, &str, &str)] = &[
    ("sector_size", "is fixed at creation", "make a new disk group"),
    ("logical_sector_size", "is what the disks have", "v$asm_disk shows it for each disk"),
    ("au_size", "is fixed at creation", "make a new disk group"),
    (
        "phys_meta_replicated",
        "is read-only: what mounts a group is on several disks from the beginning",
        "",
    ),
    ("vam_migration_done", "is about the layout of Oracle's metadata", ""),
    ("ate_conversion_done", "is about the layout of Oracle's metadata", ""),
    ("idp.", "is about hot and cold regions of disks, which are not there", ""),
    ("storage.type", "is about licences of Oracle's compression", ""),
    ("cell.", "is about Exadata", ""),
    ("appliance.", "is about Oracle's appliances", ""),
    (
        "max",
        "is about dumps that Plinth does not make",
        "the alert log names every block that is wrong",
    ),
    (
        "what_if.",
        "is 'what_if.delay.FAILGROUP', of a failure group of a mounted disk group",
        "ALTER DISKGROUP ... SET ATTRIBUTE 'what_if.delay.FAILGROUP' = '0.5ms'",
    ),
    ("template.", "is shown only", "MODIFY TEMPLATE changes it"),
    (
        "_rebalance_compact",
        "is hidden",
        "REBALANCE WITHOUT COMPACT; nothing is compacted on disks that do not rotate unless it is asked for",
    ),
];

/// The refusal of an attribute that cannot be set, if there is a more specific reason.
pub(super) fn refusal(name: &str) -> Option<AdminError> {
    let (_, reason, hint) = REASONS.iter().find(|(start, ..)| name.starts_with(start))?;
    let error = AdminError::new(
        Code::NotSupported,
        format!("attribute '{name}' cannot be set: it {reason}"),
    );
    Some(if hint.is_empty() { error } else { error.hint(hint) })
}
