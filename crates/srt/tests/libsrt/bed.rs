//! Sockets, a network that loses, and the tool.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use anabranch_srt::{Admit, Caller, Entropy, Listener, SECRET_BYTES};
use anabranch_units::{Duration, Instant, Seed};

const STEP: core::time::Duration = core::time::Duration::from_millis(1);

pub fn entropy(seed: u8) -> Entropy {
    Entropy::new(&[seed; SECRET_BYTES])
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

pub fn free_port() -> u16 {
    let socket = UdpSocket::bind(loopback(0)).unwrap();
    socket.local_addr().unwrap().port()
}

/// Returns a payload that shows its number.
pub fn numbered(number: u64) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(1_316, number as u8);
    payload
}

/// A socket and a clock.
pub struct Wire {
    socket: UdpSocket,
    began_at: std::time::Instant,
    fed_at: Cell<Instant>,
}

impl Wire {
    #[allow(clippy::disallowed_methods, reason = "a driver's clock")]
    pub fn open() -> Self {
        let socket = UdpSocket::bind(loopback(0)).unwrap();
        socket.set_read_timeout(Some(STEP)).unwrap();
        Wire {
            socket,
            began_at: std::time::Instant::now(),
            fed_at: Cell::new(Instant::ZERO),
        }
    }

    pub fn port(&self) -> u16 {
        self.socket.local_addr().unwrap().port()
    }

    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.began_at.elapsed().as_nanos() as u64)
    }

    /// Waits for a datagram, a millisecond at most, and takes all that wait.
    pub fn waiting(&self) -> Vec<Vec<u8>> {
        self.received()
            .into_iter()
            .map(|(_, datagram)| datagram)
            .collect()
    }

    fn received(&self) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut all = Vec::new();
        let mut buffer = [0; 2_000];
        while let Ok((length, from)) = self.socket.recv_from(&mut buffer) {
            all.push((from, buffer[..length].to_vec()));
            self.socket.set_nonblocking(true).unwrap();
        }
        self.socket.set_nonblocking(false).unwrap();
        all
    }

    pub fn serve(&self, listener: &mut Listener, admit: &mut Admit<'_>) {
        for (from, datagram) in self.received() {
            listener.handle_datagram(self.now(), from, &datagram, admit);
        }
        listener.handle_timeout(self.now());
        while let Some((to, datagram)) = listener.poll_transmit(self.now()) {
            self.socket.send_to(&datagram, to).unwrap();
        }
    }

    pub fn call(&self, caller: &mut Caller, to: SocketAddr) {
        for datagram in self.waiting() {
            caller.handle_datagram(self.now(), &datagram);
        }
        caller.handle_timeout(self.now());
        while let Some(datagram) = caller.poll_transmit(self.now()) {
            self.socket.send_to(&datagram, to).unwrap();
        }
    }

    /// Returns whether it is time for another payload: one in a millisecond, 10 Mbit/s.
    pub fn is_time(&self) -> bool {
        let now = self.now();
        let is_time = now.saturating_since(self.fed_at.get()) >= Duration::from_millis(1);
        if is_time {
            self.fed_at.set(now);
        }
        is_time
    }
}

/// A relay that loses datagrams in both directions.
pub struct Lossy {
    port: u16,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Lossy {
    pub fn start(to: u16, loss: f64) -> Self {
        let [front, back] = [0, 0].map(|port| UdpSocket::bind(loopback(port)).unwrap());
        let port = front.local_addr().unwrap().port();
        back.connect(loopback(to)).unwrap();
        front.set_read_timeout(Some(STEP)).unwrap();
        back.set_nonblocking(true).unwrap();
        let is_over = Arc::<AtomicBool>::default();
        let is_stopped = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let (mut rng, mut buffer, mut caller) = (Seed(7).rng(), [0; 2_000], None);
            while !is_stopped.load(Ordering::SeqCst) {
                if let Ok((length, from)) = front.recv_from(&mut buffer) {
                    caller = Some(from);
                    if !rng.chance(loss) {
                        let _ = back.send(&buffer[..length]);
                    }
                }
                while let Ok(length) = back.recv(&mut buffer) {
                    if let Some(caller) = caller
                        && !rng.chance(loss)
                    {
                        let _ = front.send_to(&buffer[..length], caller);
                    }
                }
            }
        });
        Lossy {
            port,
            is_over,
            thread: Some(thread),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Lossy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// A running `srt-live-transmit`, which ends when this is dropped. It reads standard input, or
/// writes standard output: unlike sockets, pipes lose nothing on a busy machine.
pub struct Tool {
    child: Child,
    /// Bytes that it has written.
    written: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Tool {
    fn start(reconnects: &str, from: &str, to: &str) -> Self {
        let mut command = Command::new("srt-live-transmit");
        let reconnects = format!("-autoreconnect:{reconnects}");
        command.args(["-chunk:1316", "-loglevel:fatal", &reconnects, from, to]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn();
        Tool {
            child: child.expect("srt-live-transmit (Debian: srt-tools)"),
            written: Arc::default(),
            reader: None,
        }
    }

    /// Starts it as a sender of its input to an address.
    pub fn to(url: &str) -> Self {
        Tool::start("yes", "file://con", url)
    }

    /// Starts it as a receiver.
    pub fn from(url: &str) -> Self {
        Tool::start("yes", url, "file://con").read()
    }

    /// Starts it as a receiver that ends with its connection.
    pub fn once_from(url: &str) -> Self {
        Tool::start("no", url, "file://con").read()
    }

    /// Reads its output in a thread.
    fn read(mut self) -> Self {
        let tool = &mut self;
        let (mut output, written) = (tool.child.stdout.take().unwrap(), tool.written.clone());
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                written.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        tool.reader = Some(reader);
        self
    }

    pub fn feed(&mut self, payload: &[u8]) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(payload).unwrap();
        input.flush().unwrap();
    }

    pub fn written(&self) -> Vec<u8> {
        self.written.lock().unwrap().clone()
    }

    pub fn written_bytes(&self) -> usize {
        self.written.lock().unwrap().len()
    }

    /// Waits until it has ended with its connection, and returns all that it has written.
    pub fn whole(mut self) -> Vec<u8> {
        for _ in 0..60_000 {
            if self.child.try_wait().unwrap().is_some() {
                self.reader.take().unwrap().join().unwrap();
                return self.written();
            }
            std::thread::park_timeout(STEP);
        }
        panic!("it does not end");
    }

    /// Waits until something has the port.
    pub fn wait_for_listener(&mut self, port: u16) {
        for _ in 0..5_000 {
            if UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_err() {
                return;
            }
            assert!(self.child.try_wait().unwrap().is_none(), "it has ended");
            std::thread::park_timeout(STEP);
        }
        panic!("it does not listen");
    }
}

/// Starts an ffmpeg that streams four seconds of a test picture.
pub fn ffmpeg(url: &str) -> Ended {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-loglevel", "error", "-re", "-f", "lavfi"]);
    command.args(["-i", "testsrc2=size=160x90:rate=25", "-t", "4"]);
    command.args(["-c:v", "mpeg2video", "-b:v", "1M", "-f", "mpegts", url]);
    Ended(command.spawn().expect("ffmpeg (Debian: ffmpeg)"))
}

/// A program that ends when this is dropped.
pub struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
