//! The program that the kernel asks at every open of a device node.
//!
//! ```text
//!   not for writing                          -> allowed
//!   (major, minor, kind) not in MEMBERS      -> allowed
//!   (major, minor, kind, process) in CLAIMS,
//!       and its time is not over             -> allowed
//!   else count it, note it in REFUSALS       -> refused: EPERM
//! ```
//!
//! A claim is the engine's own open. It is for one process and one device, and ends by itself: a
//! process that is killed between its claim and its open leaves nothing open for a later process
//! with the same number.
//!
//! Kernels before 6.10 do not tell a device program which process opens. There a claim is for all
//! processes, for the few milliseconds of the engine's open, and refusals have no process.
//!
//! The keys of MEMBERS and CLAIMS are four words in the order above; MEMBERS have 0 as the process.
//! Of the values, all numbers are in the host's byte order.

use super::bpf::{self, Map, MapKind};
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    path::Path,
};

/// Words of a key, 4 bytes each: major, minor, kind, process.
pub(super) const KEY: usize = 16;

/// Most device nodes that are protected, and most claims at once.
const NODES_MAX: u32 = 65_536;
const CLAIMS_MAX: u32 = 4096;
/// Refusals of which details are kept: the last ones. A power of two.
pub(super) const REFUSALS: u32 = 1024;

/// The value of a member.
pub(super) const MEMBER: usize = 32;
pub(super) const MEMBER_SEQUENCE: usize = 0; // of the device, as sysfs tells it (`diskseq`)
pub(super) const MEMBER_REFUSED: usize = 8; //  opens that were refused
pub(super) const MEMBER_OWNER: usize = 16; //   key of the node that is the member: major, minor
pub(super) const CLAIM: usize = 8; //           until when: nanoseconds since the host started

/// The record of a refusal.
pub(super) const REFUSAL: usize = 64;
pub(super) const REFUSAL_NUMBER: usize = 0; //  counts from 1; 0 while it is written
pub(super) const REFUSAL_TIME: usize = 8; //    nanoseconds since the host started
pub(super) const REFUSAL_PROCESS: usize = 16; // thread, process
pub(super) const REFUSAL_USER: usize = 24; //   user, group
pub(super) const REFUSAL_NODE: usize = 32; //   major, minor, kind, access
pub(super) const REFUSAL_PROGRAM: usize = 48; // 16 bytes, the thread's name

/// The kinds of device nodes, as the kernel numbers them.
pub(super) const BLOCK: u32 = 1;
pub(super) const CHARACTER: u32 = 2;

/// The maps of a filter.
pub(super) struct Maps {
    pub(super) members: Map<KEY, MEMBER>,
    pub(super) claims: Map<KEY, CLAIM>,
    /// By the last bits of their numbers.
    pub(super) refusals: Map<4, REFUSAL>,
    /// 0: refusals so far. 1: how many of them are in the alert log.
    pub(super) counts: Map<4, 8>,
}

const MEMBERS_PIN: &str = "members";
const CLAIMS_PIN: &str = "claims";
const REFUSALS_PIN: &str = "refusals";
const COUNTS_PIN: &str = "counts";

impl Maps {
    /// Maps that a filter has left in a directory, or new ones there.
    pub(super) fn pinned_or_new(directory: &Path) -> io::Result<Self> {
        Ok(Self {
            members: map(directory, MEMBERS_PIN, MapKind::Hash, NODES_MAX)?,
            claims: map(directory, CLAIMS_PIN, MapKind::Hash, CLAIMS_MAX)?,
            refusals: map(directory, REFUSALS_PIN, MapKind::Array, REFUSALS)?,
            counts: map(directory, COUNTS_PIN, MapKind::Array, 2)?,
        })
    }

    pub(super) fn pinned(directory: &Path) -> io::Result<Self> {
        Ok(Self {
            members: Map::pinned(&directory.join(MEMBERS_PIN))?,
            claims: Map::pinned(&directory.join(CLAIMS_PIN))?,
            refusals: Map::pinned(&directory.join(REFUSALS_PIN))?,
            counts: Map::pinned(&directory.join(COUNTS_PIN))?,
        })
    }

    /// Loads the program, as much of it as the kernel can carry out.
    pub(super) fn load(&self) -> io::Result<OwnedFd> {
        self.load_that(true).or_else(|_| self.load_that(false))
    }

    pub(super) fn load_that(&self, knows_processes: bool) -> io::Result<OwnedFd> {
        bpf::load_program(&self.program(knows_processes), "plinth_filter")
    }

    fn program(&self, knows_processes: bool) -> Vec<u64> {
        let mut code = Code::default();
        // The context: access and kind in the two halves of a word, major, minor.
        code.copy(CONTEXT, 1);
        code.load(WORD, KIND, CONTEXT, 0);
        code.copy(1, KIND);
        code.constant(SHIFT_RIGHT, 1, 16);
        code.constant(AND, 1, WRITE_ACCESS);
        code.jump(IF_EQUAL, 1, 0, Target::Allow);
        code.constant(AND, KIND, 0xffff);
        code.load(WORD, 1, CONTEXT, 4);
        code.store(WORD, STACK, KEY_AT, 1);
        code.load(WORD, 1, CONTEXT, 8);
        code.store(WORD, STACK, KEY_AT + 4, 1);
        code.store(WORD, STACK, KEY_AT + 8, KIND);
        code.constant(MOVE, 1, 0);
        code.store(WORD, STACK, KEY_AT + 12, 1);
        code.find(self.members.descriptor(), KEY_AT, Target::Allow);
        code.copy(FOUND, 0);

        if knows_processes {
            code.call(PROCESS_AND_THREAD);
            code.constant(SHIFT_RIGHT, 0, 32);
            code.store(WORD, STACK, KEY_AT + 12, 0);
        }
        code.find(self.claims.descriptor(), KEY_AT, Target::Refuse);
        code.load(LONG, 1, 0, 0);
        code.store(LONG, STACK, UNTIL_AT, 1);
        code.call(TIME_SINCE_START);
        code.load(LONG, 1, STACK, UNTIL_AT);
        code.jump_by(IF_LESS_OR_EQUAL, 0, 1, Target::Allow);

        code.label(Target::Refuse);
        self.note_refusal(&mut code, knows_processes);
        code.label(Target::Refused);
        code.constant(MOVE, 0, 0);
        code.exit();
        code.label(Target::Allow);
        code.constant(MOVE, 0, 1);
        code.exit();
        code.finished()
    }

    /// Counts a refusal, and notes its process.
    fn note_refusal(&self, code: &mut Code, knows_processes: bool) {
        code.constant(MOVE, 1, 1);
        code.atomic_add(FOUND, MEMBER_REFUSED, 1, false);
        code.constant(MOVE, 1, 0);
        code.store(WORD, STACK, NUMBER_AT, 1);
        code.find(self.counts.descriptor(), NUMBER_AT, Target::Refused);
        code.constant(MOVE, 1, 1);
        code.atomic_add(0, 0, 1, true);
        code.copy(NUMBER, 1);
        code.constant(AND, 1, REFUSALS - 1);
        code.store(WORD, STACK, NUMBER_AT, 1);
        code.find(self.refusals.descriptor(), NUMBER_AT, Target::Refused);
        code.copy(FOUND, 0);
        code.constant(MOVE, 1, 0);
        code.store(LONG, FOUND, REFUSAL_NUMBER as i16, 1);
        let process = (PROCESS_AND_THREAD, REFUSAL_PROCESS);
        for (function, place) in [(TIME_SINCE_START, REFUSAL_TIME), (USER_AND_GROUP, REFUSAL_USER)]
            .into_iter()
            .chain(knows_processes.then_some(process))
        {
            code.call(function);
            code.store(LONG, FOUND, place as i16, 0);
        }
        code.load(LONG, 1, STACK, KEY_AT);
        code.store(LONG, FOUND, REFUSAL_NODE as i16, 1);
        code.store(WORD, FOUND, REFUSAL_NODE as i16 + 8, KIND);
        code.load(WORD, 1, CONTEXT, 0);
        code.constant(SHIFT_RIGHT, 1, 16);
        code.store(WORD, FOUND, REFUSAL_NODE as i16 + 12, 1);
        if knows_processes {
            code.copy(1, FOUND);
            code.constant(ADD, 1, REFUSAL_PROGRAM as u32);
            code.constant(MOVE, 2, 16);
            code.call(PROGRAM_NAME);
        }
        code.constant(ADD, NUMBER, 1);
        code.store(LONG, FOUND, REFUSAL_NUMBER as i16, NUMBER);
    }
}

fn map<const K: usize, const V: usize>(
    directory: &Path,
    name: &str,
    kind: MapKind,
    entries: u32,
) -> io::Result<Map<K, V>> {
    let path = directory.join(name);
    match Map::pinned(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let map = Map::create(kind, entries, &format!("plinth_{name}"))?;
            map.pin(&path)?;
            Ok(map)
        }
        pinned => pinned,
    }
}

// Registers: 0 takes results, 1 to 5 arguments, and 6 to 9 survive calls; the stack is below 10.
const CONTEXT: u8 = 6;
const KIND: u8 = 7;
/// The value of the member, and then of the refusal.
const FOUND: u8 = 8;
const NUMBER: u8 = 9;
const STACK: u8 = 10;

// Places on the stack.
const KEY_AT: i16 = -16;
const UNTIL_AT: i16 = -24;
const NUMBER_AT: i16 = -28;

/// `BPF_DEVCG_ACC_WRITE`
const WRITE_ACCESS: u32 = 4;

// Sizes of what is loaded and stored.
const WORD: u8 = 0x00;
const LONG: u8 = 0x18;

// Instructions with a constant, on 64 bits.
const ADD: u8 = 0x07;
const AND: u8 = 0x57;
const SHIFT_RIGHT: u8 = 0x77;
const MOVE: u8 = 0xb7;
const IF_EQUAL: u8 = 0x15;
/// With a register, unsigned.
const IF_LESS_OR_EQUAL: u8 = 0xbd;

// Functions of the kernel.
const FIND: u32 = 1;
const PROCESS_AND_THREAD: u32 = 14;
const USER_AND_GROUP: u32 = 15;
const PROGRAM_NAME: u32 = 16;
const TIME_SINCE_START: u32 = 125;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Allow,
    Refuse,
    Refused,
}

/// Instructions, 8 bytes each, and the jumps among them.
#[derive(Default)]
struct Code {
    instructions: Vec<u64>,
    jumps: Vec<(usize, Target)>,
    labels: Vec<(Target, usize)>,
}

impl Code {
    fn push(&mut self, code: u8, to: u8, from: u8, offset: i16, constant: u32) {
        let mut bytes = [code, 0, 0, 0, 0, 0, 0, 0];
        // Two bit fields of four: which half is which follows the host's byte order.
        bytes[1] = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
        bytes[2..4].copy_from_slice(&offset.to_ne_bytes());
        bytes[4..].copy_from_slice(&constant.to_ne_bytes());
        self.instructions.push(u64::from_ne_bytes(bytes));
    }

    fn copy(&mut self, to: u8, from: u8) {
        self.push(0xbf, to, from, 0, 0);
    }

    fn constant(&mut self, code: u8, to: u8, constant: u32) {
        self.push(code, to, 0, 0, constant);
    }

    fn load(&mut self, size: u8, to: u8, from: u8, offset: i16) {
        self.push(0x61 | size, to, from, offset, 0);
    }

    fn store(&mut self, size: u8, to: u8, offset: i16, from: u8) {
        self.push(0x63 | size, to, from, offset, 0);
    }

    /// Adds a register to 8 bytes in memory, and takes their former value if `fetch` says so.
    fn atomic_add(&mut self, to: u8, offset: usize, from: u8, fetch: bool) {
        self.push(0xdb, to, from, offset as i16, u32::from(fetch));
    }

    fn call(&mut self, function: u32) {
        self.push(0x85, 0, 0, 0, function);
    }

    /// Finds the value for a key on the stack: its address is in register 0.
    fn find(&mut self, map: BorrowedFd<'_>, key: i16, otherwise: Target) {
        const FROM_DESCRIPTOR: u8 = 1;
        self.push(0x18, 1, FROM_DESCRIPTOR, 0, map.as_raw_fd().cast_unsigned());
        self.push(0, 0, 0, 0, 0);
        self.copy(2, STACK);
        self.constant(ADD, 2, i32::from(key).cast_unsigned());
        self.call(FIND);
        self.jump(IF_EQUAL, 0, 0, otherwise);
    }

    fn jump(&mut self, code: u8, register: u8, constant: u32, to: Target) {
        self.jumps.push((self.instructions.len(), to));
        self.push(code, register, 0, 0, constant);
    }

    fn jump_by(&mut self, code: u8, register: u8, other: u8, to: Target) {
        self.jumps.push((self.instructions.len(), to));
        self.push(code, register, other, 0, 0);
    }

    fn label(&mut self, target: Target) {
        self.labels.push((target, self.instructions.len()));
    }

    fn exit(&mut self) {
        self.push(0x95, 0, 0, 0, 0);
    }

    fn finished(mut self) -> Vec<u64> {
        for (from, to) in self.jumps {
            let label = self.labels.iter().find(|(label, _)| *label == to);
            let distance = label.map_or(0, |(_, at)| *at - from - 1);
            let mut bytes = self.instructions[from].to_ne_bytes();
            bytes[2..4].copy_from_slice(&(distance as i16).to_ne_bytes());
            self.instructions[from] = u64::from_ne_bytes(bytes);
        }
        self.instructions
    }
}
