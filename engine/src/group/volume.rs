//! Volumes: files of type ASMVOL with all their space reserved, which a front end can export as a
//! device.
//!
//! A volume is a row, and a file in the directory `.volumes` of the group's root: the file has its
//! bytes, space and size. It has no dirty region log as in ASM: the activity log knows the writes
//! in flight in every file.
//!
//! Creating one:
//!
//!   1. A row that says it is not complete.
//!   2. The file; the row names it; its space is reserved, all or nothing.
//!   3. The row says that it is complete: from then on it is a volume.
//!
//! Dropping one: the row says that it is not complete, the file goes, the row goes. A crash in
//! between leaves an incomplete row, and the next mount (or the next statement about volumes)
//! removes what is left of it. Each step is durable before the next. A volume whose file was
//! removed through a mount of the group is gone, too: its row goes on the same occasions.
//!
//! The file has the size that statements gave it: a front end can write it, and neither truncate it
//! nor write behind its end. Punching holes in it gives that space back.
//!
//! Invariants:
//!
//!   1. A complete row names a file that has all its space, except for holes that were punched.
//!   2. A file in `.volumes` under the name of an incomplete row is not used.

use crate::{
    admin::{AdminError, Code, VolumeChange},
    api::{Allocate, Caller, Changes, Kind, NewFile, Node, ROOT},
    catalog::tables::{
        self,
        volume::{self, VolumeRow, VolumeUpdate},
    },
    error::FileError,
    event::Severity,
    files::session::Session,
    group::Group,
};
use rusqlite::Connection;

type Result<T> = std::result::Result<T, AdminError>;

const DIRECTORY: &[u8] = b".volumes";
const OWNER: Caller = Caller { uid: 0, gid: 0 };

impl Group {
    /// Creates, changes, resizes, drops, enables or disables volumes.
    ///
    /// # Errors
    /// If it does not exist or exists already, or does not fit; then nothing is changed.
    pub async fn change_volume(&self, change: &VolumeChange) -> Result<()> {
        let Some(group) = self.myself() else {
            return Err(AdminError::new(
                Code::NotMounted,
                format!("disk group {} is being dismounted", self.name),
            ));
        };
        let session = Session::new(group, None);
        let _one_at_a_time = self.volumes.turn.lock().await;
        self.tidy_volumes_in(&session)
            .await
            .map_err(|error| self.volume_failed("volumes", error))?;
        let changed = self.carry_out_on_volumes(&session, change).await;
        // Whether it succeeded or not.
        self.learn_volumes().await.map_err(|error| self.volume_failed("volumes", error))?;
        changed
    }

    async fn carry_out_on_volumes(&self, session: &Session, change: &VolumeChange) -> Result<()> {
        match change {
            VolumeChange::Add { name, size, mirrors, stripe_width, stripe_columns } => {
                self.check_mirrors(name, *mirrors)?;
                self.add_volume(session, name, *size, (*stripe_width, *stripe_columns)).await
            }
            VolumeChange::Resize { name, size } => self.resize_volume(session, name, *size).await,
            VolumeChange::Drop { name } => self.drop_volume(session, name).await,
            VolumeChange::Modify { name, mount_path, usage } => {
                let (mount_path, usage) = (mount_path.clone(), usage.clone());
                self.update_volume(name, VolumeUpdate::Usage { mount_path, usage }).await
            }
            VolumeChange::Enable { volumes: None, enable } => {
                let enable = *enable;
                let all =
                    move |connection: &Connection| Ok(volume::enable_all(connection, enable)?);
                self.catalog
                    .write(true, all)
                    .await
                    .map_err(|error| self.volume_failed("volumes", error))?;
                Ok(())
            }
            VolumeChange::Enable { volumes: Some(names), enable } => {
                for name in names {
                    self.find_volume(name).await?;
                }
                for name in names {
                    self.update_volume(name, VolumeUpdate::Enabled(*enable)).await?;
                }
                Ok(())
            }
        }
    }

    /// Removes the remains of volumes that were being created or dropped at a crash.
    pub(crate) async fn tidy_volumes(&self) {
        let Some(group) = self.myself() else { return };
        let session = Session::new(group, None);
        let _one_at_a_time = self.volumes.turn.lock().await;
        if let Err(error) = self.tidy_volumes_in(&session).await {
            self.tell(
                Severity::Warning,
                None,
                format!("what is left of volumes is not removed: {error}"),
            );
        }
    }

    async fn tidy_volumes_in(&self, session: &Session) -> std::result::Result<(), FileError> {
        let left = self.catalog.read(|connection| Ok(volume::incomplete(connection)?)).await?;
        for row in left {
            self.remove_volume(session, &row).await?;
        }
        self.learn_volumes().await
    }

    /// Reads which files are volumes.
    async fn learn_volumes(&self) -> std::result::Result<(), FileError> {
        let files = self.catalog.read(|connection| Ok(volume::files(connection)?)).await?;
        self.volumes.are(files);
        Ok(())
    }

    /// Removes the file, whatever its present name, and then the row.
    async fn remove_volume(
        &self,
        session: &Session,
        row: &VolumeRow,
    ) -> std::result::Result<(), FileError> {
        let mut names = Vec::new();
        if let Some(file) = row.file {
            names = self.files.names_of(file).await?;
        } else if let Ok(directory) = self.files.lookup(ROOT, DIRECTORY).await {
            names.push((directory.node, row.name.clone().into_bytes()));
        }
        for (parent, name) in names {
            match session.unlink(parent, &name).await {
                Ok(()) | Err(FileError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        let number = row.number;
        let forget = move |connection: &Connection| Ok(volume::delete(connection, number)?);
        self.catalog.release(true, forget).await.map(drop)
    }

    fn volume_failed(&self, what: &str, error: FileError) -> AdminError {
        error.while_doing(format_args!("disk group {}: {what}", self.name))
    }

    async fn find_volume(&self, name: &str) -> Result<VolumeRow> {
        let wanted = name.to_owned();
        let find = move |connection: &Connection| Ok(volume::find(connection, &wanted)?);
        let (found, _) = self
            .catalog
            .release(false, find)
            .await
            .map_err(|error| self.volume_failed(name, error))?;
        found.ok_or_else(|| {
            AdminError::new(
                Code::NoSuchVolume,
                format!("disk group {} has no volume {name}", self.name),
            )
            .hint("v$asm_volume has the names")
        })
    }

    /// Changes the row of a volume, durably.
    async fn update_volume(&self, name: &str, update: VolumeUpdate) -> Result<()> {
        let VolumeRow { number, .. } = self.find_volume(name).await?;
        let job = move |connection: &Connection| Ok(volume::update(connection, number, &update)?);
        self.catalog.write(true, job).await.map_err(|error| self.volume_failed(name, error))?;
        Ok(())
    }

    /// Whether a volume can have this many mirrors.
    fn check_mirrors(&self, name: &str, mirrors: Option<u8>) -> Result<()> {
        let redundancy = self.voters.current().wanted;
        match mirrors {
            Some(mirrors) if usize::from(mirrors) != redundancy.mirrors() => {
                let text =
                    format!("volume {name} has the redundancy of its disk group: {redundancy}");
                Err(AdminError::new(Code::NotSupported, text)
                    .hint("leave the redundancy out, or make the volume in another disk group"))
            }
            _ => Ok(()),
        }
    }

    fn volume_size(&self, name: &str, size: u64) -> Result<u64> {
        let rounded = size
            .checked_next_multiple_of(self.au_size)
            .filter(|size| *size <= i64::MAX.cast_unsigned());
        rounded.ok_or_else(|| {
            AdminError::new(Code::Invalid, format!("volume {name} cannot have {size} bytes"))
        })
    }

    async fn add_volume(
        &self,
        session: &Session,
        name: &str,
        size: u64,
        stripes: (u64, u64),
    ) -> Result<()> {
        let size = self.volume_size(name, size)?;
        let failed = |error: FileError| self.volume_failed(name, error);
        let directory = match self.files.lookup(ROOT, DIRECTORY).await {
            Ok(found) if found.kind == Kind::Directory => found.node,
            Ok(_) => {
                let text =
                    format!("disk group {} has a file .volumes, where volumes belong", self.name);
                return Err(AdminError::new(Code::Invalid, text).hint("give it another name"));
            }
            Err(FileError::NotFound) => {
                let made = session.create(ROOT, DIRECTORY, NewFile::Directory, 0o700, OWNER).await;
                made.map_err(failed)?.node
            }
            Err(error) => return Err(failed(error)),
        };
        let exists = self.find_volume(name).await.is_ok();
        if exists || self.files.lookup(directory, name.as_bytes()).await.is_ok() {
            let text =
                format!("disk group {} has a volume {name}, or a file .volumes/{name}", self.name);
            return Err(AdminError::new(Code::VolumeExists, text));
        }
        let (wanted, (width, columns)) = (name.to_owned(), stripes);
        let begin =
            move |connection: &Connection| Ok(volume::insert(connection, &wanted, width, columns)?);
        let (number, _) = self.catalog.write(true, begin).await.map_err(failed)?;
        let made = self.make_volume(session, directory, name, number, size).await;
        if let Err(error) = made {
            // If this fails as well, the next mount does it.
            let _ = self.tidy_volumes_in(session).await;
            if matches!(error, FileError::NoSpace) {
                let text = format!(
                    "disk group {} has no room for a volume of {} MiB",
                    self.name,
                    size >> 20
                );
                return Err(AdminError::new(Code::NoSpace, text)
                    .hint("usable_file_mb in v$asm_diskgroup says how much there is; add disks, or remove files"));
            }
            return Err(failed(error));
        }
        self.tell(Severity::Note, None, format!("volume {name} of {} MiB is made", size >> 20));
        Ok(())
    }

    /// Steps 2 and 3.
    async fn make_volume(
        &self,
        session: &Session,
        directory: Node,
        name: &str,
        number: i64,
        size: u64,
    ) -> std::result::Result<(), FileError> {
        let file =
            session.create(directory, name.as_bytes(), NewFile::Regular, 0o600, OWNER).await?.node;
        let point = move |connection: &Connection| {
            tables::file::set_volume_type(connection, file)?;
            Ok(volume::set_file(connection, number, file)?)
        };
        self.catalog.write(true, point).await?;
        session.allocate(file, 0, size, Allocate::Reserve { keep_size: false }, false).await?;
        let complete = move |connection: &Connection| {
            Ok(volume::update(connection, number, &VolumeUpdate::Complete(true))?)
        };
        self.catalog.write(true, complete).await.map(drop)
    }

    async fn resize_volume(&self, session: &Session, name: &str, size: u64) -> Result<()> {
        let size = self.volume_size(name, size)?;
        let VolumeRow { file: Some(file), .. } = self.find_volume(name).await? else {
            return Err(AdminError::new(
                Code::NoSuchVolume,
                format!("volume {name} is being dropped"),
            ));
        };
        let failed = |error: FileError| self.volume_failed(name, error);
        let open = self.files.get(file).await.map_err(failed)?;
        let now = open.attributes().size;
        if size > now {
            let more = self
                .allocate_file(&open, 0, size, Allocate::Reserve { keep_size: false }, false)
                .await;
            more.map_err(|error| match error {
                FileError::NoSpace => {
                    let (more, name_of) = ((size - now) >> 20, &self.name);
                    AdminError::new(Code::NoSpace, format!("disk group {name_of} has no room for {more} MiB more"))
                        .hint("usable_file_mb in v$asm_diskgroup says how much there is; add disks, or remove files")
                }
                error => failed(error),
            })?;
        } else {
            let smaller = Changes { size: Some(size), ..Changes::default() };
            self.resize(&open, &smaller).await.map_err(failed)?;
        }
        session.tell_others(file);
        session.sync(file, false).await.map_err(failed)?;
        self.catalog.durable_point().await.map_err(failed)?;
        self.tell(
            Severity::Note,
            None,
            format!("volume {name} has {} MiB, and had {}", size >> 20, now >> 20),
        );
        Ok(())
    }

    async fn drop_volume(&self, session: &Session, name: &str) -> Result<()> {
        let row = self.find_volume(name).await?;
        self.update_volume(name, VolumeUpdate::Complete(false)).await?;
        self.remove_volume(session, &row).await.map_err(|error| self.volume_failed(name, error))?;
        self.tell(Severity::Note, None, format!("volume {name} is dropped"));
        Ok(())
    }
}
