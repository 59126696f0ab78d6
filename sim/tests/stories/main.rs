//! Stories of whole groups, in virtual time: what a program reads after crashes, I/O errors and
//! lost disks; statements while the group is used. `lab` has their verbs.

mod access;
mod add_drop;
mod catalog_growth;
mod contents;
mod convert;
mod corruption;
mod discards;
mod dismounts;
mod flushes;
mod hanging;
mod lab;
mod names;
mod own_metadata;
mod partial_blocks;
mod reminders;
mod resize;
mod resyncs;
mod scrubs;
mod sizes;
mod stats;
mod takeover;
mod templates;
mod volumes;

use lab::{EVERY, Lab, block_on};
use plinth_engine::{
    admin::{Code, OperationPass, OperationState, Selection},
    api::{Allocate, Caller, Changes, Node, ROOT, RenameMode, Seek},
    error::FileError,
    files::session::Session,
    testing::Numbers,
};
use plinth_format::{Redundancy, layout::MIB, membership::DiskState};
use sim::{disk::SimDisk, scenario::pattern};
use std::{sync::Arc, time::Duration};

const ROOT_CALLER: Caller = Caller { uid: 0, gid: 0 };
