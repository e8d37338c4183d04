//! Prints the cost of `serve` and `proxy` over loopback: CPU seconds of both per Gbit of a
//! download, encrypted, in packets of at most 1500 B. Linux only: it reads CPU times from /proc.
//!
//! `tunnel_figures [GBIT]`. The program `anabranch` is expected beside this one's folder, or at the
//! path in ANABRANCH, which can name another build for comparison.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Frequency of the kernel's clock ticks.
const TICKS_PER_SECOND: f64 = 100.0;
/// Number of attempts to reach the programs through an open session.
const ATTEMPTS: u32 = 100;
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(100);
static PIECE: [u8; 1 << 16] = [7; 1 << 16];

/// A program that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(program: &Path, arguments: &[&str]) -> io::Result<Running> {
        let mut command = Command::new(program);
        let quiet = command.args(arguments).stdout(Stdio::null());
        Ok(Running(quiet.stderr(Stdio::null()).spawn()?))
    }

    /// Returns the CPU seconds so far, in user and kernel mode.
    fn cpu_seconds(&self) -> io::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let both = fields.split_whitespace().skip(11).take(2);
        let ticks = both.filter_map(|ticks| ticks.parse::<f64>().ok());
        Ok(ticks.sum::<f64>() / TICKS_PER_SECOND)
    }
}

/// Starts a server that sends each client the number of bytes that it requests in 8 bytes.
fn start_origin() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // The client notices a connection that breaks off.
            std::thread::spawn(move || serve(connection));
        }
    });
    Ok(address)
}

fn serve(mut connection: TcpStream) -> io::Result<()> {
    let mut wanted = [0; 8];
    connection.read_exact(&mut wanted)?;
    let mut left = u64::from_be_bytes(wanted);
    while left > 0 {
        let piece = left.min(PIECE.len() as u64);
        connection.write_all(&PIECE[..piece as usize])?;
        left -= piece;
    }
    Ok(())
}

fn download(from: SocketAddr, bytes: u64) -> io::Result<()> {
    let mut connection = TcpStream::connect(from)?;
    connection.write_all(&bytes.to_be_bytes())?;
    let mut buffer = vec![0; 1 << 18];
    let mut arrived = 0;
    while arrived < bytes {
        match connection.read(&mut buffer)? {
            0 => return Err(io::Error::other(format!("{arrived} of {bytes} bytes"))),
            count => arrived += count as u64,
        }
    }
    Ok(())
}

/// Returns a port that is free now.
fn free_port() -> io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

/// Makes a key pair with its secret key in `file`. Returns the public key.
fn make_key(program: &Path, file: &Path) -> io::Result<String> {
    let mut keygen = Command::new(program);
    let made = keygen.args(["keygen", "--output"]).arg(file).output()?;
    let text = String::from_utf8_lossy(&made.stdout).into_owned();
    let key = text
        .split_whitespace()
        .find(|word| word.starts_with("abpub_"));
    key.map(str::to_owned)
        .ok_or_else(|| io::Error::other(format!("no key: {text}")))
}

fn run(program: &Path, path_count: u8, gigabits: f64) -> io::Result<()> {
    let folder = std::env::temp_dir().join(format!("anabranch-tunnel-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let [server_file, client_file] = ["server.key", "client.key"].map(|name| folder.join(name));
    let server = make_key(program, &server_file)?;
    let client = make_key(program, &client_file)?;
    let files = [server_file, client_file].map(|file| file.display().to_string());
    let origin = start_origin()?.to_string();
    let [session, local] = [free_port()?, free_port()?].map(|port| format!("127.0.0.1:{port}"));
    let serving = Running::start(
        program,
        &[
            "serve",
            "--listen",
            &session,
            "--key",
            &files[0],
            "--allow",
            &client,
            "--forward",
            &origin,
        ],
    )?;
    let vias: Vec<String> = (1..=path_count)
        .map(|path| format!("127.0.0.{path}"))
        .collect();
    let mut arguments = vec![
        "proxy", "--to", &session, "--key", &files[1], "--peer", &server,
    ];
    vias.iter()
        .for_each(|via| arguments.extend(["--via", via.as_str()]));
    arguments.extend(["--listen", &local]);
    let proxying = Running::start(program, &arguments)?;
    let local: SocketAddr = local.parse().map_err(io::Error::other)?;
    // This also covers slow start and the search for the MTU.
    let mut attempts = 0;
    while let Err(error) = download(local, 10_000_000) {
        attempts += 1;
        if attempts == ATTEMPTS {
            return Err(error);
        }
        std::thread::park_timeout(PAUSE);
    }
    let before = [serving.cpu_seconds()?, proxying.cpu_seconds()?];
    download(local, (gigabits * 1e9 / 8.0) as u64)?;
    let after = [serving.cpu_seconds()?, proxying.cpu_seconds()?];
    let [serve, proxy] = [0, 1].map(|end| (after[end] - before[end]) / gigabits);
    let both = serve + proxy;
    println!("{path_count} paths: serve {serve:.2}, proxy {proxy:.2}, both {both:.2}");
    std::fs::remove_dir_all(&folder)
}

fn main() -> io::Result<()> {
    let gigabits = std::env::args()
        .nth(1)
        .and_then(|gigabits| gigabits.parse().ok());
    let own = std::env::current_exe()?;
    let beside = own
        .ancestors()
        .nth(2)
        .map(|folder| folder.join("anabranch"));
    let named = std::env::var_os("ANABRANCH").map(PathBuf::from);
    let program = named
        .or(beside)
        .ok_or_else(|| io::Error::other("no program"))?;
    println!("CPU seconds per Gbit of a download through serve and proxy over loopback");
    for path_count in [1, 2] {
        run(&program, path_count, gigabits.unwrap_or(4.0))?;
    }
    Ok(())
}
