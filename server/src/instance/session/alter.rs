//! A statement that an engine carries out: completed here by the instance (the paths that a pattern
//! matches, the numbers of the host's users), sent, and waited for.

use super::{Context, Notice, Outcome, Result, SqlError, at_disk, checked, each, matches};
use crate::{
    query::Cancel,
    sql::statement::{Alter, At, Groups, Places},
};
use plinth_engine::admin::{
    self, AdminError, Code, Command, Exchange, NewDisk, Operation, OperationPass, Order,
    Replacement, VolumeChange, Work,
};

/// The places of names in the statement, looked up in the order of the text.
pub(super) struct InText<'a> {
    left: &'a [(String, usize)],
    otherwise: usize,
}

impl<'a> InText<'a> {
    pub(super) fn new(places: &'a Places, otherwise: usize) -> Self {
        Self { left: places, otherwise }
    }

    /// The place of the next occurrence of this name.
    pub(super) fn next(&mut self, name: &str) -> usize {
        let Some(index) = self.left.iter().position(|(other, _)| other == name) else {
            return self.otherwise;
        };
        let at = self.left[index].1;
        self.left = &self.left[index + 1..];
        at
    }

    /// The name, with the place of its next occurrence.
    pub(super) fn find(&mut self, name: &str) -> At<String> {
        At { value: name.to_owned(), at: self.next(name) }
    }
}

impl Context {
    pub(super) fn alter(
        &self,
        alter: &Alter,
        cancel: &Cancel,
        notices: &mut Vec<Notice>,
    ) -> Result<Outcome> {
        let command = &alter.command;
        match command {
            Command::Scrub(order) => self.scrub(alter, order, cancel, notices),
            // Does not wait for an engine that is being started: it has no scrub to stop.
            Command::StopScrub => each(&self.mounted_groups(&alter.groups), |group| {
                self.instance.engine(group)?.ask(command.clone())
            }),
            Command::Undrop | Command::Volume(VolumeChange::Enable { .. }) => {
                each(&self.mounted_groups(&alter.groups), |group| {
                    self.instance.engine_in_service(group)?.ask(command.clone())
                })
            }
            _ => self.alter_one(alter, cancel, notices),
        }
    }

    fn alter_one(
        &self,
        alter: &Alter,
        cancel: &Cancel,
        notices: &mut Vec<Notice>,
    ) -> Result<Outcome> {
        let group = one_group(alter)?;
        let (command, places) = self.completed(alter, group)?;
        let goes_on_in = command.goes_on_in();
        let repair = matches!(command, Command::Check { repair: true, .. });
        let drops =
            matches!(&command, Command::Exchange { exchange, .. } if !exchange.drop.is_empty());
        let done = self
            .engine(group)?
            .carry_out(command)
            .map_err(|error| at_disk(error, &places, alter.at))?;
        if let admin::Outcome::Report(report) = done {
            checked(&group.value, &report, repair, notices)?;
        }
        let waits = alter.wait.unwrap_or(self.waits_for_drops && drops);
        if let Some(pass) = goes_on_in.filter(|_| waits && !self.is_paused(&alter.command, group)) {
            self.wait_for(group, pass, cancel)?;
        }
        Ok(Outcome::Done)
    }

    /// The order with the power that it has in this session. A power that the statement does not
    /// give is left to the engine, which knows whether a rebalance runs; but a session may have set
    /// its own, and `MODIFY POWER` without a number goes back to the default.
    pub(super) fn powered(&self, order: Order) -> Order {
        let power = match order {
            Order { power: Some(power), .. } => Some(power),
            Order { power: None, phases: None } => {
                Some(self.own_power().unwrap_or_else(|| self.instance.power_limit()))
            }
            Order { power: None, .. } => self.own_power(),
        };
        Order { power, ..order }
    }

    /// Whether the rebalance that a command has begun waits for a statement that gives it power,
    /// because `asm_power_limit` is 0.
    fn is_paused(&self, command: &Command, group: &At<String>) -> bool {
        let Some(order) = command.order() else { return false };
        let is_open = self.powered(order).power.is_none();
        is_open
            && self.instance.power_limit() == 0
            && self.engine(group).and_then(|engine| Ok(engine.operations()?)).is_ok_and(
                |operations| {
                    let is_it = |one: &Operation| one.pass == OperationPass::Rebalance;
                    operations.iter().filter(|one| is_it(one)).all(|one| one.power == 0)
                },
            )
    }

    /// The command as its engine can carry it out, and the places of names that an error may be
    /// about.
    pub(super) fn completed(&self, alter: &Alter, group: &At<String>) -> Result<(Command, Places)> {
        let mut text = InText::new(&alter.places, alter.at);
        Ok(match &alter.command {
            Command::Exchange { exchange, order } => {
                let (exchange, places) = self.disks_of(exchange, &mut text)?;
                (Command::Exchange { exchange, order: self.powered(*order) }, places)
            }
            Command::Resize { resizes, order } => {
                let order = self.powered(*order);
                (Command::Resize { resizes: resizes.clone(), order }, Places::new())
            }
            Command::Convert { to, order } => {
                (Command::Convert { to: *to, order: self.powered(*order) }, Places::new())
            }
            Command::Rebalance(order) => (Command::Rebalance(self.powered(*order)), Places::new()),
            Command::Estimate(Work::Exchange(exchange)) => {
                let (exchange, places) = self.disks_of(exchange, &mut text)?;
                (Command::Estimate(Work::Exchange(exchange)), places)
            }
            Command::Replace { replacements, power } => {
                let (replacements, places) = self.devices_of(replacements, group, &mut text)?;
                (Command::Replace { replacements, power: *power }, places)
            }
            Command::Access(change) => {
                (Command::Access(self.with_numbers(change, group, &mut text)?), Places::new())
            }
            Command::Names { order, .. } => {
                let command = Command::Names { order: order.clone(), uid: Some(self.peer.uid) };
                (command, alter.places.clone())
            }
            whole => (whole.clone(), Places::new()),
        })
    }

    fn disks_of(&self, exchange: &Exchange, text: &mut InText<'_>) -> Result<(Exchange, Places)> {
        let (add, places) = self.find_disks(&exchange.add, text)?;
        Ok((Exchange { add, drop: exchange.drop.clone() }, places))
    }

    fn devices_of(
        &self,
        replacements: &[Replacement],
        group: &At<String>,
        text: &mut InText<'_>,
    ) -> Result<(Vec<Replacement>, Places)> {
        let clause = |one: &Replacement| NewDisk {
            path: one.path.clone(),
            name: None,
            failure_group: None,
            quorum: false,
            size: None,
            force: one.force,
        };
        let clauses: Vec<NewDisk> = replacements.iter().map(clause).collect();
        let (devices, places) = self.find_disks(&clauses, text)?;
        if devices.len() != replacements.len() {
            return Err(SqlError::syntax(group.at, "one of the paths matches several disks")
                .hint("name one device for each disk that is replaced"));
        }
        let pairs = replacements.iter().zip(devices);
        let one = |(one, device): (&Replacement, NewDisk)| Replacement {
            disk: one.disk.clone(),
            path: device.path,
            force: device.force,
        };
        Ok((pairs.map(one).collect(), places))
    }

    /// The disks that clauses name, one for each path that a pattern matches, and the place of each
    /// in the statement.
    pub(super) fn find_disks(
        &self,
        clauses: &[NewDisk],
        text: &mut InText<'_>,
    ) -> Result<(Vec<NewDisk>, Places)> {
        let survey = self.instance.discovery().survey().map_err(SqlError::from)?;
        let mut places = Places::new();
        let mut disks: Vec<NewDisk> = Vec::new();
        for clause in clauses {
            let wanted = text.find(&clause.path);
            let name_at = clause.name.as_ref().map(|name| text.next(name));
            let paths = matches(&wanted, &survey, &self.instance.diskstring())?;
            if let (Some(at), true) = (name_at, paths.len() > 1) {
                return Err(SqlError::syntax(
                    at,
                    format!(
                        "'{}' matches {} disks, and one name is for one disk",
                        clause.path,
                        paths.len()
                    ),
                ));
            }
            for path in paths {
                if disks.iter().any(|disk| disk.path == path) {
                    return Err(SqlError::from(AdminError::new(
                        Code::DuplicateDisk,
                        format!("disk {path} is named twice in this statement"),
                    ))
                    .at(wanted.at));
                }
                places.push((path.clone(), wanted.at));
                disks.push(NewDisk { path, ..clause.clone() });
            }
        }
        Ok((disks, places))
    }
}

/// The group of a statement that is for exactly one group.
pub(super) fn one_group(alter: &Alter) -> Result<&At<String>> {
    match &alter.groups {
        Groups::Named(names) if names.len() == 1 => Ok(&names[0]),
        _ => Err(SqlError::syntax(alter.at, "this statement is for one disk group")
            .hint("name one disk group")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_twice_has_two_places() {
        let places = [("/a*", 10), ("D1", 20), ("/b", 30), ("/a*", 40), ("D1", 50)];
        let places: Places = places.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect();
        let mut text = InText::new(&places, 7);
        assert_eq!((text.next("/a*"), text.next("/b")), (10, 30));
        assert_eq!(text.find("/a*"), At { value: "/a*".to_owned(), at: 40 });
        assert_eq!((text.next("/b"), text.next("D1"), text.next("D1")), (7, 50, 7));
    }
}
