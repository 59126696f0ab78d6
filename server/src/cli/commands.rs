//! The table of commands. The shell, `plinth CMD`, help, the manual page and completion are all
//! made of it.
//!
//! A row is a name and a type with the command's flags; the type's own file has the description and
//! the code. Every command is in this table. Commands of `asmcmd` keep their names and flags.

use super::{
    Result, about, access, alarm, amdu, backup, check,
    context::{Context, Run},
    cp, disks, extents, files, filter, groups, iostat, kfed, labels, lists, load, ls, lsod, lsof,
    manual, mounts, names, nbd, reclaim, renamedg, report, settings, sql, status, stores,
    templates, top, upgrade, volumes,
};
use clap::Subcommand;

macro_rules! table {
    ($($section:literal: $($name:ident($arguments:ty),)*)*) => {
        /// A command of the shell.
        #[derive(Debug, Subcommand)]
        #[command(rename_all = "snake_case")]
        pub(super) enum Verb {
            $($($name($arguments),)*)*
        }

        impl Run for Verb {
            fn run(&self, context: &mut Context) -> Result<()> {
                match self {
                    $($(Self::$name(command) => command.run(context),)*)*
                }
            }
        }

        /// Headings of the table, each with the number of its commands.
        pub(super) const SECTIONS: &[(&str, usize)] = &[$(($section, [$(stringify!($name)),*].len()),)*];
    };
}

table! {
    "Files":
        Cd(names::Cd),
        Pwd(names::Pwd),
        Ls(ls::Ls),
        Find(files::Find),
        Du(files::Du),
        Cp(cp::Cp),
        Rm(files::Rm),
        Mkdir(files::Mkdir),
        Mkalias(names::Mkalias),
        Rmalias(names::Rmalias),
        Lsof(lsof::Lsof),
        Mapextent(extents::Mapextent),
        Mapau(extents::Mapau),
    "Disk groups":
        Lsdg(lists::Lsdg),
        Lsattr(lists::Lsattr),
        Setattr(settings::Setattr),
        Mkdg(groups::Mkdg),
        Chdg(groups::Chdg),
        Dropdg(groups::Dropdg),
        Chkdg(check::Chkdg),
        Check(check::Check),
        Scrub(check::Scrub),
        Mount(mounts::Mount),
        Umount(mounts::Umount),
        Upgrade(upgrade::Upgrade),
        Renamedg(renamedg::Renamedg),
        Rebal(disks::Rebal),
        Reclaim(reclaim::Reclaim),
        Lsop(lists::Lsop),
        MdBackup(backup::MdBackup),
        MdRestore(backup::MdRestore),
    "Disks":
        Lsdsk(lists::Lsdsk),
        Lsod(lsod::Lsod),
        Online(disks::Online),
        Offline(disks::Offline),
        Remap(disks::Remap),
        Iostat(iostat::Iostat),
        AfdConfigure(filter::AfdConfigure),
        AfdDeconfigure(filter::AfdDeconfigure),
        AfdState(filter::AfdState),
        AfdFilter(filter::AfdFilter),
        Kfed(kfed::Kfed),
        Amdu(amdu::Amdu),
        Dsget(settings::Dsget),
        Dsset(settings::Dsset),
        AfdLabel(labels::AfdLabel),
        AfdUnlabel(labels::AfdUnlabel),
        AfdLslbl(labels::AfdLslbl),
        AfdLsdsk(labels::AfdLsdsk),
        AfdScan(labels::AfdScan),
        AfdDi(labels::AfdDi),
        AfdDsget(labels::AfdDsget),
        AfdDsset(labels::AfdDsset),
    "Templates":
        Lstmpl(templates::Lstmpl),
        Mktmpl(templates::Mktmpl),
        Chtmpl(templates::Chtmpl),
        Rmtmpl(templates::Rmtmpl),
    "Access":
        Chmod(access::Chmod),
        Chown(access::Chown),
        Chgrp(access::Chgrp),
        Lsusr(access::Lsusr),
        Mkusr(access::Mkusr),
        Rmusr(access::Rmusr),
        Rpusr(access::Rpusr),
        Lsgrp(access::Lsgrp),
        Mkgrp(access::Mkgrp),
        Rmgrp(access::Rmgrp),
        Grpmod(access::Grpmod),
        Groups(access::Groups),
    "Volumes":
        Volcreate(volumes::Volcreate),
        Voldelete(volumes::Voldelete),
        Volinfo(volumes::Volinfo),
        Volresize(volumes::Volresize),
        Volset(volumes::Volset),
        Volenable(volumes::Volenable),
        Voldisable(volumes::Voldisable),
        Volstat(volumes::Volstat),
        Nbd(nbd::Nbd),
    "Evidence":
        Report(report::Report),
        Load(load::Load),
    "Instance":
        Status(status::Status),
        Top(top::Top),
        Alarm(alarm::Alarm),
        Lsct(lists::Lsct),
        Sql(sql::Sql),
        Lspwusr(stores::Lspwusr),
        Pwget(stores::Pwget),
        Pwset(stores::Pwset),
        Spget(stores::Spget),
        Spset(stores::Spset),
        Spcopy(stores::Spcopy),
        Spmove(stores::Spmove),
        Spbackup(stores::Spbackup),
        Showversion(about::Showversion),
        Showpatches(about::Showpatches),
        Showclustermode(about::Showclustermode),
        Showclusterstate(about::Showclusterstate),
        Help(manual::Help),
        Exit(manual::Exit),
}
