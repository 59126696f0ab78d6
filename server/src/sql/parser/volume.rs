//! Clauses on volumes.

use super::{Parser, Result, Statement};
use crate::{
    sql::{
        At,
        statement::{Alter, Groups},
    },
    sql_error::SqlError,
};
use plinth_engine::admin::{Command, VolumeChange};
use plinth_format::Redundancy;

/// The longest name of a volume, in characters: as in ASM.
const NAME_MAX: usize = 11;

/// The allowed widths of a stripe, in bytes: as in ASM.
const STRIPE_WIDTH: std::ops::RangeInclusive<u64> = 4 << 10..=1 << 20;
const STRIPE_COLUMNS: std::ops::RangeInclusive<u64> = 1..=8;

fn volume(group: At<String>, change: VolumeChange, at: usize) -> Statement {
    Statement::Alter(Alter::one(group, Command::Volume(change)).at(at))
}

impl Parser<'_> {
    /// `VOLUME v SIZE n [MIRROR | HIGH | UNPROTECTED] [STRIPE_WIDTH n {K | M}] [STRIPE_COLUMNS n]`,
    /// after `ADD`.
    pub(super) fn add_volume(&mut self, group: At<String>) -> Result<Statement> {
        let at = self.here();
        self.need("VOLUME")?;
        let name = self.volume()?;
        self.need("SIZE")?;
        let size = self.volume_size()?;
        let (mut redundancy, mut stripe_width, mut stripe_columns) = (None, None, None);
        while self.peek().is_some() {
            let words = [
                ("MIRROR", Redundancy::Normal),
                ("HIGH", Redundancy::High),
                ("UNPROTECTED", Redundancy::External),
            ];
            if redundancy.is_none()
                && let Some((_, said)) = words.into_iter().find(|(word, _)| self.take(word))
            {
                redundancy = Some(said);
            } else if stripe_width.is_none() && self.take("STRIPE_WIDTH") {
                let place = self.here();
                let width = self.size()?;
                if !width.is_power_of_two() || !STRIPE_WIDTH.contains(&width) {
                    return Err(SqlError::syntax(place, "a stripe is 4K, 8K, 16K ... 1M wide"));
                }
                stripe_width = Some(width);
            } else if stripe_columns.is_none() && self.take("STRIPE_COLUMNS") {
                let place = self.here();
                let columns = self.size()?;
                if !STRIPE_COLUMNS.contains(&columns) {
                    return Err(SqlError::syntax(place, "STRIPE_COLUMNS is a number from 1 to 8"));
                }
                stripe_columns = Some(columns);
            } else {
                return Err(self
                    .expected("MIRROR, HIGH, UNPROTECTED, STRIPE_WIDTH, STRIPE_COLUMNS or the end of the statement"));
            }
        }
        let change = VolumeChange::Add {
            name: name.value,
            size,
            mirrors: redundancy.map(|redundancy| redundancy as u8),
            stripe_width: stripe_width.unwrap_or(*STRIPE_WIDTH.end()),
            stripe_columns: stripe_columns.unwrap_or(*STRIPE_COLUMNS.end()),
        };
        Ok(volume(group, change, at))
    }

    /// `VOLUME v [MOUNTPATH 'p'] [USAGE 'u']`, after `MODIFY`.
    pub(super) fn modify_volume(&mut self, group: At<String>) -> Result<Statement> {
        let at = self.here();
        self.need("VOLUME")?;
        let name = self.volume()?.value;
        let (mut mount_path, mut usage) = (None, None);
        loop {
            if mount_path.is_none() && self.take("MOUNTPATH") {
                mount_path = Some(self.short("a path in single quotes", 1024)?);
            } else if usage.is_none() && self.take("USAGE") {
                usage = Some(self.short("what the volume is used for, in single quotes", 30)?);
            } else if mount_path.is_none() && usage.is_none() {
                return Err(self.expected("MOUNTPATH or USAGE"));
            } else {
                break;
            }
        }
        Ok(volume(group, VolumeChange::Modify { name, mount_path, usage }, at))
    }

    /// `VOLUME v SIZE n`, after `RESIZE`.
    pub(super) fn resize_volume(&mut self, group: At<String>) -> Result<Statement> {
        let at = self.here();
        self.need("VOLUME")?;
        let name = self.volume()?.value;
        self.need("SIZE")?;
        let size = self.volume_size()?;
        Ok(volume(group, VolumeChange::Resize { name, size }, at))
    }

    /// `VOLUME v`, after `DROP`.
    pub(super) fn drop_volume(&mut self, group: At<String>) -> Result<Statement> {
        let at = self.here();
        self.need("VOLUME")?;
        let name = self.volume()?.value;
        Ok(volume(group, VolumeChange::Drop { name }, at))
    }

    /// `{ENABLE | DISABLE} VOLUME {v, ... | ALL}`; `None` if another clause comes next.
    pub(super) fn enable_volumes(&mut self, groups: &Groups) -> Result<Option<Statement>> {
        let at = self.here();
        let enable = self.take("ENABLE");
        if !enable && !self.take("DISABLE") {
            return Ok(None);
        }
        self.need("VOLUME")?;
        let volumes = if self.take("ALL") {
            None
        } else {
            let mut names = vec![self.volume()?.value];
            while self.take_symbol(",") {
                names.push(self.volume()?.value);
            }
            Some(names)
        };
        let command = Command::Volume(VolumeChange::Enable { volumes, enable });
        Ok(Some(Statement::Alter(Alter::of(groups.clone(), command).at(at))))
    }

    fn volume(&mut self) -> Result<At<String>> {
        let name = self.name("the name of a volume")?;
        if name.value.len() > NAME_MAX
            || !name.value.chars().all(|character| character.is_ascii_alphanumeric())
        {
            return Err(SqlError::syntax(
                name.at,
                format!("\"{}\" cannot be the name of a volume", name.value),
            )
            .hint(format!("it has a letter, then letters and digits, at most {NAME_MAX} in all")));
        }
        Ok(name)
    }

    fn volume_size(&mut self) -> Result<u64> {
        let at = self.here();
        let size = self.size()?;
        if size == 0 {
            return Err(SqlError::syntax(at, "a volume has at least one byte"));
        }
        Ok(size)
    }

    fn short(&mut self, what: &str, most: usize) -> Result<String> {
        let text = self.string(what)?;
        if text.value.chars().count() > most {
            return Err(SqlError::syntax(
                text.at,
                format!("expected {what}, of {most} characters at most"),
            ));
        }
        Ok(text.value)
    }
}
