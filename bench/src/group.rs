//! A disk group in the program that uses it. Disks are overwritten.

use plinth_engine::{
    admin::{NewDisk, NewGroup},
    group::Group,
    world::World,
};
use plinth_format::Redundancy;
use plinth_host::{IoChoice, RealWorld, block_on};
use std::sync::Arc;

const NAME: &str = "BENCH";

/// The host, with these disks.
///
/// # Errors
/// If there is no way to do I/O.
pub fn world(paths: &[String]) -> Result<Arc<RealWorld>, String> {
    let world =
        RealWorld::new(IoChoice::from_environment().map_err(|error| error.to_string())?, |event| {
            eprintln!("{event:?}");
        });
    let world = world.map_err(|error| error.to_string())?;
    world.set_diskstring(&paths.join(",")).map_err(|error| error.to_string())?;
    Ok(Arc::new(world))
}

/// One disk: EXTERNAL redundancy; more: NORMAL.
///
/// # Errors
/// If the group cannot be made.
pub fn create(
    world: &Arc<RealWorld>,
    paths: &[String],
    attributes: &[(String, String)],
) -> Result<(), String> {
    let disk = |path: &String| NewDisk {
        path: path.clone(),
        name: None,
        failure_group: None,
        quorum: false,
        size: None,
        force: true,
    };
    let new = NewGroup {
        name: NAME.into(),
        redundancy: if paths.len() == 1 { Redundancy::External } else { Redundancy::Normal },
        au_size: 4 << 20,
        attributes: attributes.to_vec(),
        disks: paths.iter().map(disk).collect(),
    };
    let world: Arc<dyn World> = Arc::clone(world) as _;
    block_on(Group::create(&world, new)).map(drop).map_err(|error| error.to_string())
}

/// # Errors
/// If the group cannot be mounted.
pub fn mount(world: &Arc<RealWorld>) -> Result<Arc<Group>, String> {
    block_on(Group::mount(Arc::clone(world) as _, NAME, false)).map_err(|error| error.to_string())
}

/// # Errors
/// If it cannot be dismounted in good order.
pub fn dismount(group: &Arc<Group>) -> Result<(), String> {
    block_on(group.dismount(true)).map(drop).map_err(|error| error.to_string())
}
