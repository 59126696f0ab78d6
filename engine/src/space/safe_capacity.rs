//! How much can be written so that all redundancy can be restored after the loss of a failure
//! group: `v$asm_space`.
//!
//! Pure. After a loss, a rebalance gives every extent all its mirrors again on the failure groups
//! that are left, and moves mirrors out of the way (`balance.rs`). So the question is whether
//! everything fits there: E extents of m mirrors fit on failure groups of c(i) AUs if sum min(c(i),
//! E) >= m E, since two mirrors of an extent never share a failure group.
//!
//! The catalog needs room as well: the mirror that it loses comes back in a failure group that has
//! none, and all its mirrors grow with each extent that is written. The worst of the places where
//! it may come back counts, and growth is estimated generously: so the answer may be some AUs too
//! small, and is never too large.

/// AUs of a failure group for extents, and AUs that the catalog has there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    pub units: u64,
    pub catalog: u64,
}

/// Bytes of the catalog per extent, about twice the size of its row and index entry.
const CATALOG_PER_EXTENT: u64 = 256;
/// AUs that each mirror of the catalog allocates ahead, besides an eighth of its size: it grows in
/// runs.
const CATALOG_AHEAD: u64 = 2;

/// AUs by which a mirror of the catalog may have grown after `new` extents were written.
fn growth(new: u64, au_size: u64) -> u64 {
    (new * CATALOG_PER_EXTENT).div_ceil(au_size) + CATALOG_AHEAD
}

/// Whether the extents fit without failure group `lost`. `grown`: AUs by which each mirror of the
/// catalog grows.
fn fits(mirrors: u64, extents: u64, lost: usize, grown: u64, rooms: &[Room]) -> bool {
    let left = || rooms.iter().enumerate().filter(|(index, _)| *index != lost);
    // The lost mirror of the catalog comes back in one of the failure groups that have none.
    let comes_back = |index: usize| rooms[lost].catalog > 0 && rooms[index].catalog == 0;
    let room = |to: Option<usize>| -> u64 {
        let units = left().map(|(index, room)| {
            let catalog = match to {
                Some(to) if to == index => rooms[lost].catalog * 9 / 8 + grown,
                _ if room.catalog > 0 => room.catalog / 8 + grown,
                _ => 0,
            };
            room.units.saturating_sub(catalog).min(extents)
        });
        units.sum()
    };
    let receivers = left().map(|(index, _)| index).filter(|index| comes_back(*index)).map(Some);
    receivers.chain([None]).all(|to| room(to) >= mirrors * extents)
}

/// The most extents that may still be written, of the `writable` that can be, if there are
/// `extents`; and the failure group whose loss would be too much for one more, unless space now is
/// the limit.
#[must_use]
pub fn safe_extents(
    mirrors: u64,
    extents: u64,
    writable: u64,
    au_size: u64,
    rooms: &[Room],
) -> (u64, Option<usize>) {
    let (mut safe, mut bound) = (writable, None);
    for lost in 0..rooms.len() {
        let fits = |new: u64| fits(mirrors, extents + new, lost, growth(new, au_size), rooms);
        if fits(safe) {
            continue;
        }
        let (mut fit, mut too_many) = (0, safe);
        while too_many - fit > 1 {
            let middle = fit + (too_many - fit) / 2;
            if fits(middle) { fit = middle } else { too_many = middle }
        }
        (safe, bound) = (fit, Some(lost));
    }
    (safe, bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AU: u64 = 4 << 20;

    fn rooms(units: &[u64]) -> Vec<Room> {
        units.iter().map(|units| Room { units: *units, catalog: 0 }).collect()
    }

    /// Three failure groups of 1000: two of them have room for 1000 extents.
    #[test]
    fn the_remaining_failure_groups_hold_everything() {
        let (safe, bound) = safe_extents(2, 0, 1500, AU, &rooms(&[1000, 1000, 1000]));
        assert!((990..=1000).contains(&safe), "{safe}");
        assert_eq!(bound, Some(0));
        // Extents that exist count; the space free now is the limit in any case.
        let (more, _) = safe_extents(2, 600, 900, AU, &rooms(&[1000, 1000, 1000]));
        assert_eq!(more, safe - 600);
        assert_eq!(safe_extents(2, 600, 100, AU, &rooms(&[1000, 1000, 1000])), (100, None));
    }

    /// The largest failure group is not the only one that counts: without a large one, the small
    /// one holds a mirror of everything.
    #[test]
    fn a_small_failure_group_bounds_it() {
        let (safe, bound) = safe_extents(2, 0, 1000, AU, &rooms(&[1000, 1000, 50]));
        assert!((40..=50).contains(&safe), "{safe}");
        assert_eq!(bound, Some(0));
    }

    #[test]
    fn the_catalog_has_to_fit_too() {
        let lost = [
            Room { units: 900, catalog: 100 },
            Room { units: 1000, catalog: 0 },
            Room { units: 1000, catalog: 0 },
        ];
        let (safe, bound) = safe_extents(2, 0, 1400, AU, &lost);
        assert!((880..=900).contains(&safe), "{safe}");
        assert!(bound.is_some());
    }

    #[test]
    fn nothing_is_safe_when_it_is_too_late() {
        assert_eq!(safe_extents(2, 1400, 100, AU, &rooms(&[1000, 1000, 1000])).0, 0);
    }
}
