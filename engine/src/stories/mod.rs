//! Tests of mechanisms on whole groups with disks in memory. Each of them reaches into the engine:
//! a job that the catalog's thread holds, a single I/O that hangs, an extent's mirrors. Stories
//! that need only a session, statements and failing disks run in virtual time:
//! `sim/tests/stories`.

mod access;
mod add_drop;
mod attributes;
mod catalog_growth;
mod checksum_zones;
mod contents;
mod convert;
mod copies;
mod corruption;
mod discards;
mod dismounts;
mod disputes;
mod doubtful_commits;
mod flushes;
mod full;
mod hanging;
mod health;
mod kills;
mod lab;
mod labels;
mod mends;
mod moves;
mod names;
mod own_metadata;
mod partial_blocks;
mod preformat;
mod reads;
mod reclaims;
mod reminders;
mod resize;
mod resyncs;
mod room;
mod scrubs;
mod silence;
mod sizes;
mod slots;
mod stats;
mod stress;
mod templates;
mod what_if;

use crate::{
    admin::{Code, OperationPass, OperationState, Selection},
    api::{Allocate, Caller, Changes, NewFile, Node, ROOT, Seek},
    catalog::CatalogFile,
    disk::member::Member,
    error::FileError,
    extent::Extent,
    files::session::Session,
    group::Group,
    testing::{Fuse, MemoryDisk, Numbers, TestWorld, block_on, new_group, run_until},
    world::World,
};
use lab::{FIRST_VERSION, Lab, ROOT_CALLER, pattern};
use plinth_format::{Au, Redundancy, layout::MIB, membership::DiskState};
use std::{sync::Arc, time::Duration};
