//! Statements on a mounted group: each command, and the function that does it.

use crate::{
    admin::{AdminError, Code, Command, NameOrder, Outcome, Report, Scope},
    api::Caller,
    catalog::attributes::what_if,
    error::FileError,
    files::session::Session,
    group::Group,
};
use std::sync::Arc;

impl Group {
    /// Carries out one statement.
    ///
    /// # Errors
    /// As the function that does it.
    pub async fn carry_out(self: &Arc<Self>, command: Command) -> Result<Outcome, AdminError> {
        match command {
            Command::Offline { which, drop_after } => self.offline(which, drop_after).await?,
            Command::Online { which, power } => {
                power.into_iter().for_each(|power| self.set_resync_power(power));
                self.online(which).await?;
            }
            Command::Exchange { exchange, order } => self.exchange(exchange, order).await?,
            Command::Estimate(work) => return self.estimate(&work).await.map(Outcome::Estimate),
            Command::Undrop => self.undrop().await?,
            Command::Replace { replacements, power } => {
                power.into_iter().for_each(|power| self.set_resync_power(power));
                self.replace(&replacements).await?;
            }
            Command::Rename(renaming) => self.rename(&renaming).await?,
            Command::Label { disk, label, permission } => {
                self.label(&disk, &label, permission).await?
            }
            Command::Resize { resizes, order } => self.resize_disks(&resizes, order).await?,
            Command::Convert { to, order } => self.convert(to, order).await?,
            Command::Rebalance(order) => self.rebalance(order).await?,
            Command::Check { repair, scope } => {
                return self.check_with_missing(&scope, repair).await.map(Outcome::Report);
            }
            Command::Scrub(order) => self.scrub(&order).await?,
            Command::StopScrub => self.stop_scrub(),
            Command::Reclaim(order) => self.begin_reclaim(&order).await?,
            Command::StopReclaim => self.stop_reclaim().await?,
            Command::Reclaimable(which) => {
                return self.reclaimable(&which).await.map(Outcome::Reclaimable);
            }
            Command::Access(change) => self.change_access(&change).await?,
            Command::Volume(change) => self.change_volume(&change).await?,
            Command::Names { order, uid } => self.change_names(order, uid).await?,
            Command::SetAttribute { name, value, force } => {
                match name.get(..what_if::PREFIX.len()) {
                    Some(start) if start.eq_ignore_ascii_case(what_if::PREFIX) => {
                        self.set_delay(&name, &value, force).await?;
                    }
                    _ => self.set_attribute(&name, &value).await?,
                }
            }
        }
        Ok(Outcome::Done)
    }

    /// A check; of the whole group, also with the files that would not survive the losses that they
    /// should.
    async fn check_with_missing(&self, scope: &Scope, repair: bool) -> Result<Report, AdminError> {
        let mut report = self.check_scope(scope, repair).await?;
        if *scope == Scope::All {
            report.name_missing(self.missing_mirrors().await);
            report.remarks.extend(self.delay_sentences());
        }
        Ok(report)
    }

    async fn change_names(
        self: &Arc<Self>,
        order: NameOrder,
        uid: Option<u32>,
    ) -> Result<(), AdminError> {
        let uid = uid.ok_or_else(|| {
            AdminError::new(Code::Invalid, "a statement on names came without its user")
        })?;
        let session = Session::new(Arc::clone(self), None);
        session.order(order, Caller { uid, gid: 0 }).await.map_err(|error| match error {
            FileError::Order(refusal) => *refusal,
            error => error.while_doing(format_args!("disk group {}", self.name)),
        })
    }
}
