//! An NBD server of one export in memory, which can stop answering, or lose writes.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixListener,
    path::Path,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub struct Server {
    /// For a client.
    pub address: String,
    export: Arc<Export>,
}

struct Export {
    bytes: Mutex<Vec<u8>>,
    /// A request is answered with it held shared.
    gate: RwLock<()>,
    /// Of small writes it loses each of that number; 0: none.
    lost_of: usize,
    small_writes: AtomicUsize,
}

/// Bytes of a write that is not lost.
const LARGE: usize = 1 << 20;

impl Server {
    #[allow(dead_code, reason = "not every test has one that keeps all")]
    pub fn start(socket: &Path, size: usize) -> Self {
        Self::losing(socket, size, 0)
    }

    /// One of `lost_of` small writes is acknowledged and not done.
    pub fn losing(socket: &Path, size: usize, lost_of: usize) -> Self {
        let listener = UnixListener::bind(socket).expect("a socket");
        let export = Arc::new(Export {
            bytes: Mutex::new(vec![0; size]),
            gate: RwLock::new(()),
            lost_of,
            small_writes: AtomicUsize::new(0),
        });
        let of_server = Arc::clone(&export);
        thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let export = Arc::clone(&of_server);
                // It ends when the client has gone.
                thread::spawn(move || drop(serve(&mut stream, &export)));
            }
        });
        Self { address: format!("nbd+unix:///export?socket={}", socket.display()), export }
    }

    /// Answers nothing for that time. Returns how long it was.
    #[allow(dead_code, reason = "not every test stops it")]
    pub fn stop_for(&self, time: Duration) -> Duration {
        let _closed = self.export.gate.write().expect("no panic");
        let began = Instant::now();
        thread::sleep(time);
        began.elapsed()
    }
}

impl Export {
    fn loses(&self, length: usize) -> bool {
        let number = self.small_writes.fetch_add(1, Ordering::Relaxed);
        length < LARGE && self.lost_of > 0 && number.is_multiple_of(self.lost_of)
    }
}

fn serve(stream: &mut (impl Read + Write), export: &Export) -> io::Result<()> {
    let Export { bytes, gate, .. } = export;
    let size = bytes.lock().expect("no panic").len();
    stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
    let mut option = [0; 20];
    stream.read_exact(&mut option)?;
    let length = u32::from_be_bytes(option[16..20].try_into().expect("4 bytes"));
    stream.read_exact(&mut vec![0; length as usize])?;
    let reply = |kind: u32, data: &[u8]| {
        let mut reply = 0x3_e889_0455_65a9_u64.to_be_bytes().to_vec();
        reply.extend([0, 0, 0, 7]);
        reply.extend(kind.to_be_bytes());
        reply.extend((data.len() as u32).to_be_bytes());
        reply.extend(data);
        reply
    };
    let mut info = vec![0, 0];
    info.extend((size as u64).to_be_bytes());
    info.extend(0b1101_u16.to_be_bytes());
    stream.write_all(&reply(3, &info))?;
    stream.write_all(&reply(1, &[]))?;
    loop {
        let mut request = [0; 28];
        stream.read_exact(&mut request)?;
        let _is_open = gate.read().expect("no panic");
        let number = |range: std::ops::Range<usize>| {
            request[range].iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte))
        };
        let (offset, length) = (number(16..24), number(24..28));
        let mut answer = 0x6744_6698_u32.to_be_bytes().to_vec();
        answer.extend([0; 4]);
        answer.extend(&request[8..16]);
        match number(6..8) {
            0 => answer.extend(&bytes.lock().expect("no panic")[offset..offset + length]),
            1 => {
                let mut data = vec![0; length];
                stream.read_exact(&mut data)?;
                if !export.loses(length) {
                    bytes.lock().expect("no panic")[offset..offset + length].copy_from_slice(&data);
                }
            }
            _ => {}
        }
        stream.write_all(&answer)?;
    }
}
