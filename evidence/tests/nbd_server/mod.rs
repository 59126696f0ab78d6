//! An NBD server of one export in memory, which can stop answering.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixListener,
    path::Path,
    sync::{Arc, Mutex, RwLock},
    thread,
    time::{Duration, Instant},
};

pub struct Server {
    /// For a client.
    pub address: String,
    /// A request is answered with it held shared.
    gate: Arc<RwLock<()>>,
}

impl Server {
    pub fn start(socket: &Path, size: usize) -> Self {
        let listener = UnixListener::bind(socket).expect("a socket");
        let gate = Arc::new(RwLock::new(()));
        let bytes = Arc::new(Mutex::new(vec![0; size]));
        let of_server = Arc::clone(&gate);
        thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let (bytes, gate) = (Arc::clone(&bytes), Arc::clone(&of_server));
                // It ends when the client has gone.
                thread::spawn(move || drop(serve(&mut stream, &bytes, &gate)));
            }
        });
        Self { address: format!("nbd+unix:///export?socket={}", socket.display()), gate }
    }

    /// Answers nothing for that time. Returns how long it was.
    #[allow(dead_code, reason = "not every test stops it")]
    pub fn stop_for(&self, time: Duration) -> Duration {
        let _closed = self.gate.write().expect("no panic");
        let began = Instant::now();
        thread::sleep(time);
        began.elapsed()
    }
}

fn serve(
    stream: &mut (impl Read + Write),
    bytes: &Mutex<Vec<u8>>,
    gate: &RwLock<()>,
) -> io::Result<()> {
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
                bytes.lock().expect("no panic")[offset..offset + length].copy_from_slice(&data);
            }
            _ => {}
        }
        stream.write_all(&answer)?;
    }
}
