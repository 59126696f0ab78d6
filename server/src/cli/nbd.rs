//! `nbd`: files and volumes as block devices for NBD clients.
//!
//! A word with no `+` and no `/` in it is a volume, unless the shell's current directory is in a
//! disk group. An export lasts until it is stopped, or its disk group is dismounted.

use super::{
    Result,
    asm_path::{self, groups},
    context::{Context, Headings, Run, asmcmd, checked_name, group_name, quoted},
    network::{absolute, address, tls_files},
};
use crate::{
    engine::exports::{At, Export},
    query::{Column, Table, views::Type},
    sql_error::{SqlError, state},
    tls::Network,
    users,
};
use clap::Args;
use plinth_engine::{admin::Value, api::Kind};
use std::path::PathBuf;

/// Serve files and volumes to NBD clients as block devices
///
/// With a file or a volume: export it, or stop that. Without: list what is exported.
#[derive(Debug, Args)]
pub(super) struct Nbd {
    /// The disk group of a volume.
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    /// The name that clients use, instead of its own.
    #[arg(long)]
    name: Option<String>,
    /// Listen on this unix socket [default: DIR/nbd.GROUP.sock].
    #[arg(long, value_name = "PATH", conflicts_with = "tcp")]
    socket: Option<PathBuf>,
    /// Let the members of this unix group connect to the socket.
    #[arg(long, value_name = "GROUP", conflicts_with = "tcp")]
    socket_group: Option<String>,
    /// Listen on TCP, for clients with a certificate.
    #[arg(long, value_name = "ADDR:PORT")]
    tcp: Option<String>,
    /// The certificate for TLS, and those that lead to an authority, in PEM.
    #[arg(long, value_name = "FILE", requires = "tcp", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Let in only clients with a certificate that one of these authorities signed, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Let in all clients that can connect to the TCP address: NBD has no passwords.
    #[arg(long, requires = "tcp")]
    insecure: bool,
    /// Clients may only read.
    #[arg(short, long)]
    read_only: bool,
    /// List what is exported, and to how many clients. So does the command alone.
    #[arg(long, conflicts_with_all = ["what", "stop"])]
    list: bool,
    /// Export it no more; everywhere, or at the address or under the name that is given.
    #[arg(long, requires = "what")]
    stop: bool,
    /// With --stop, although clients use it.
    #[arg(short, long, requires = "stop")]
    force: bool,
    #[command(flatten)]
    headings: Headings,
    /// +GROUP/path of a file, or a volume.
    #[arg(value_name = "FILE|VOLUME")]
    what: Option<String>,
}

/// The file or volume that an argument names: its group, its path in the group, its own name.
struct Meant {
    group: String,
    path: String,
    name: String,
}

impl Run for Nbd {
    fn run(&self, context: &mut Context) -> Result<()> {
        let Some(what) = &self.what else { return self.show(context) };
        if self.stop {
            return self.end(context, what);
        }
        let meant = self.meant(context, what, true)?;
        let name = self.name.clone().unwrap_or(meant.name);
        if name.is_empty() || name.len() > 255 {
            return Err(SqlError::new("22023", "an export's name has 1 to 255 bytes"));
        }
        let at = match self.at(context, &meant.group)? {
            Some(at) => at,
            None => At::Unix { path: context.paths.nbd(&meant.group), group: self.members()? },
        };
        at.check().map_err(|error| SqlError::new("22023", error.to_string()))?;
        let export = Export { at, name, path: meant.path, read_only: self.read_only };
        context.instance()?.export(&meant.group, &export)?;
        context.say(export.uri());
        Ok(())
    }
}

impl Nbd {
    fn members(&self) -> Result<Option<u32>> {
        let Some(name) = &self.socket_group else { return Ok(None) };
        let found = users::group(name).ok_or_else(|| {
            SqlError::new("22023", format!("there is no unix group {name}"))
                .hint("groupadd makes one")
        })?;
        Ok(Some(found))
    }

    /// The address that the options give, if they give one.
    fn at(&self, context: &Context, group: &str) -> Result<Option<At>> {
        if let Some(tcp) = &self.tcp {
            let listen = address(
                "--tcp",
                tcp,
                "an address and a port, such as 127.0.0.1:10809 or [::]:10809",
            )?;
            let tls =
                tls_files(self.tls_cert.clone(), self.tls_key.clone(), self.tls_client_ca.clone());
            return Ok(Some(At::Tcp(Network { listen, tls, insecure: self.insecure })));
        }
        let path = match &self.socket {
            Some(path) => absolute(path.clone()),
            None if self.socket_group.is_some() => context.paths.nbd(group),
            None => return Ok(None),
        };
        Ok(Some(At::Unix { path, group: self.members()? }))
    }

    /// The file or volume that `what` names. With `is_there` it must exist.
    fn meant(&self, context: &Context, what: &str, is_there: bool) -> Result<Meant> {
        let is_volume =
            self.group.is_some() || context.here.group.is_none() && !what.contains(['+', '/']);
        if is_volume {
            let name = checked_name(what, "a volume")?;
            let group = match &self.group {
                Some(group) => group_name(group)?,
                None => group_of(context, &name)?,
            };
            let found = context.query(&format!(
                "SELECT v.volume_name FROM v$asm_volume v, v$asm_diskgroup_stat g \
                 WHERE v.group_number = g.group_number AND g.name = {} AND v.volume_name = {}",
                quoted(&group),
                quoted(&name)
            ))?;
            if is_there && found.rows.is_empty() {
                return Err(SqlError::new(
                    "22023",
                    format!("disk group {group} has no volume {name}"),
                )
                .hint("volinfo -a has the names"));
            }
            return Ok(Meant { path: format!(".volumes/{name}"), group, name });
        }
        let place = context.place(what);
        let group = place.group()?.to_owned();
        let found = context.engine(&group).and_then(|engine| asm_path::find(&engine, &place));
        let place = match found {
            Ok(found) if found.info.kind == Kind::Regular => found.place,
            Ok(found) => {
                return Err(SqlError::new("22023", format!("{} is no regular file", found.place)));
            }
            // It may have been removed since.
            Err(_) if !is_there => place,
            Err(refusal) => return Err(refusal),
        };
        let name = place
            .parts
            .last()
            .map(|name| name.trim_start_matches('.').to_owned())
            .unwrap_or_default();
        Ok(Meant { group, path: place.inside(), name })
    }

    fn end(&self, context: &Context, what: &str) -> Result<()> {
        let meant = self.meant(context, what, false)?;
        let at = self.at(context, &meant.group)?;
        let is_meant = |export: &Export| {
            export.path == meant.path
                && at.as_ref().is_none_or(|at| at.is_same_place(&export.at))
                && self.name.as_ref().is_none_or(|name| *name == export.name)
        };
        let all = exports(context, &meant.group)?;
        let exports: Vec<Export> =
            all.into_iter().map(|(export, _)| export).filter(is_meant).collect();
        if exports.is_empty() {
            return Err(asmcmd(8002, format!("'{what}' is not exported")).hint("nbd lists what is"));
        }
        let instance = context.instance()?;
        exports.iter().try_for_each(|export| instance.withdraw(&meant.group, export, self.force))
    }

    fn show(&self, context: &Context) -> Result<()> {
        let among = match &self.group {
            Some(group) => vec![group_name(group)?],
            None => groups(context, "*")?,
        };
        let mut rows = Vec::new();
        for group in among {
            // A group whose engine is being started cannot list its exports.
            let Ok(exports) = exports(context, &group) else { continue };
            for (export, clients) in exports {
                let access = if export.read_only { "RO" } else { "RW" };
                let words = [format!("+{group}/{}", export.path), access.to_owned(), export.uri()];
                let mut row: Vec<Value> = words.into_iter().map(Value::Text).collect();
                let clients = clients
                    .map(|clients| Value::Integer(i64::try_from(clients).unwrap_or(i64::MAX)));
                row.insert(2, clients.unwrap_or(Value::Null));
                rows.push(row);
            }
        }
        let column = |(name, kind): (&str, Type)| Column { name: name.to_owned(), kind };
        let columns = [
            ("File", Type::Text),
            ("Access", Type::Text),
            ("Clients", Type::Integer),
            ("URI", Type::Text),
        ];
        context.show(&Table { columns: columns.map(column).to_vec(), rows }, self.headings);
        Ok(())
    }
}

/// All exports of a group, and how many clients each has; `None`: the engine does not have it yet,
/// because its address does not exist on the host. If no instance answers, such exports are left
/// out.
fn exports(context: &Context, group: &str) -> Result<Vec<(Export, Option<usize>)>> {
    let there = context.engine(group)?.exports()?;
    let mut missing =
        context.instance().and_then(|instance| instance.exports(group)).unwrap_or_default();
    missing.retain(|export| there.iter().all(|(other, _)| other != export));
    let there = there.into_iter().map(|(export, clients)| (export, Some(clients)));
    Ok(there.chain(missing.into_iter().map(|export| (export, None))).collect())
}

/// The group that has a volume of this name, if it is the only one.
fn group_of(context: &Context, volume: &str) -> Result<String> {
    let found = context.query(&format!(
        "SELECT g.name FROM v$asm_volume v, v$asm_diskgroup_stat g \
         WHERE v.group_number = g.group_number AND v.volume_name = {}",
        quoted(volume)
    ))?;
    match &found.rows[..] {
        [row] => match row.first() {
            Some(Value::Text(group)) => Ok(group.clone()),
            _ => Err(SqlError::new(state::INTERNAL, "a volume without a disk group")),
        },
        [] => Err(SqlError::new("22023", format!("there is no volume {volume}"))
            .hint("a file is written +GROUP/path; volinfo -a has the volumes")),
        _ => Err(SqlError::new("22023", format!("several disk groups have a volume {volume}"))
            .hint("-G GROUP says which")),
    }
}
