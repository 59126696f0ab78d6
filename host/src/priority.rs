//! The priority of a thread.
#![allow(unsafe_code)]

/// Lets this thread run only when no other wants to. If the kernel refuses, its priority stays. Not
/// for threads that hold locks which others need: they could be kept from releasing them.
pub fn become_idle() {
    schedule(libc::SCHED_IDLE, 19);
}

/// Lets other threads go first whenever they are runnable, and costs hardly any processor time
/// otherwise: for threads that hold locks which others need, and that limit their own processor
/// time ([`crate::background`]). The kernel counts their time as that of low priority.
pub fn lower_priority() {
    schedule(libc::SCHED_OTHER, 1);
}

/// Gives this thread a policy, a nice value, and the longest possible time slice: a thread that
/// wakes then preempts it at once, and not when its slice has ended, or at the next tick. Kernels
/// before 6.12 have no slices per thread.
fn schedule(policy: libc::c_int, nice: i32) {
    // SAFETY: no pointers; 0 is the calling thread. It may be nicer already, and only root may take
    // that back.
    let nice = nice.max(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) });
    let attributes = libc::sched_attr {
        size: u32::try_from(size_of::<libc::sched_attr>()).expect("small"),
        sched_policy: policy.cast_unsigned(),
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: 0,
        sched_runtime: 100_000_000,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: a valid structure of the size it says; 0 is the calling thread.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}
