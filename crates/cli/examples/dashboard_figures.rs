//! Prints the processor time of `send` and `recv` with a stream of 6 Mbit/s, without and with five
//! viewers of each dashboard. Fails if the observation and its viewers take more than 2 % of a core
//! at an end. Linux only: it reads the times of threads from /proc.
//!
//! `dashboard_figures [SECONDS]`. The program `anabranch` is expected beside this one's folder, or
//! at the path in ANABRANCH, which can name another build for comparison.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anabranch_video::mpeg_ts::TransportStreamWriter;

/// Pictures per second of the stream.
const PICTURES: u64 = 25;
/// Size of a picture: 6 Mbit/s.
const PICTURE_BYTES: u64 = 30_000;
const VIEWERS: usize = 5;
/// Upper bound on the share of a core at one end.
const MAX_SHARE: f64 = 0.02;
/// Time for the session to begin, and for pages to load.
const WARM_UP: Duration = Duration::from_secs(4);
/// Names of the threads that sample and answer, as the kernel shortens them.
const THREADS: [&str; 3] = ["statistics", "metrics", "tokio-runtime-w"];
/// Requests of a page when it opens.
const LOADED: [&str; 6] = [
    "/",
    "/dashboard.js",
    "/uplot.js",
    "/history.json",
    "/hour.json",
    "/events.json",
];

/// A program that is killed when this is dropped.
struct Running {
    child: Child,
    lines: BufReader<std::process::ChildStderr>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time in seconds.
#[derive(Clone, Copy, Default)]
struct Cost {
    all: f64,
    observation: f64,
}

impl Running {
    fn start(program: &Path, arguments: &[&str]) -> io::Result<Running> {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let stderr = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let lines = BufReader::new(stderr);
        Ok(Running { child, lines })
    }

    /// Returns the word that follows `start` in a line of its standard error.
    fn word_after(&mut self, start: &str) -> io::Result<String> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line)? == 0 {
                return Err(io::Error::other(format!("it did not say {start:?}")));
            }
            if let Some((_, rest)) = line.split_once(start) {
                return Ok(rest.split_whitespace().next().unwrap_or("").to_owned());
            }
        }
    }

    fn dashboard(&mut self) -> io::Result<SocketAddr> {
        let word = self.word_after("dashboard at http://")?;
        word.trim_matches('/').parse().map_err(io::Error::other)
    }

    /// Returns the processor time so far, in user and kernel mode.
    fn cost(&self) -> io::Result<Cost> {
        let mut cost = Cost::default();
        for task in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let folder = task?.path();
            let Ok(times) = std::fs::read_to_string(folder.join("schedstat")) else {
                continue;
            };
            let nanoseconds = times.split(' ').next().and_then(|text| text.parse().ok());
            let seconds = nanoseconds.unwrap_or(0.0) / 1e9;
            let name = std::fs::read_to_string(folder.join("comm")).unwrap_or_default();
            cost.all += seconds;
            if THREADS.contains(&name.trim()) {
                cost.observation += seconds;
            }
        }
        Ok(cost)
    }
}

fn request(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

/// Loads a page and follows its news until the program ends.
fn view(address: SocketAddr) -> io::Result<()> {
    let mut all = Vec::new();
    for path in LOADED {
        let mut connection = TcpStream::connect(address)?;
        connection.write_all(request(path).as_bytes())?;
        connection.read_to_end(&mut all)?;
    }
    let mut connection = TcpStream::connect(address)?;
    connection.write_all(request("/live").as_bytes())?;
    let mut buffer = [0; 1 << 16];
    while connection.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Writes a film that lasts this long.
fn make_film(path: &Path, seconds: u64) -> io::Result<()> {
    let mut writer = TransportStreamWriter::new(Vec::new());
    for number in 0..seconds * PICTURES {
        let is_key = number % PICTURES == 0;
        let mut picture = vec![0, 0, 0, 1, if is_key { 0x65 } else { 0x41 }];
        picture.extend((0..PICTURE_BYTES).map(|at| (at * number % 255) as u8 + 1));
        let at = anabranch_units::Duration::from_millis(number * 1_000 / PICTURES);
        writer.write(&picture, at, is_key)?;
    }
    std::fs::write(path, writer.into_inner())
}

/// Makes a key pair with its secret key in `file`. Returns the public key.
fn make_key(program: &Path, file: &Path) -> io::Result<String> {
    let made = Command::new(program)
        .args(["keygen", "--force", "--output"])
        .arg(file)
        .output()?;
    Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned())
}

/// Runs a session and returns the cost per second at its sender and receiver.
fn measure(program: &Path, folder: &Path, seconds: u64, viewers: usize) -> io::Result<[Cost; 2]> {
    let [camera, studio, out, film] = ["camera.key", "studio.key", "out.ts", "film.ts"]
        .map(|name| folder.join(name).display().to_string());
    let camera_public = make_key(program, Path::new(&camera))?;
    let studio_public = make_key(program, Path::new(&studio))?;
    let dashboard: &[&str] = match viewers {
        0 => &[],
        _ => &["--dashboard", "0"],
    };
    let listen = "127.0.0.1:0";
    let fixed = ["recv", "--listen", listen, "--key", &studio, "--allow"];
    let options = [&fixed[..], &[&camera_public], dashboard, &[&out]].concat();
    let mut recv = Running::start(program, &options)?;
    let mut addresses = Vec::new();
    if viewers > 0 {
        addresses.push(recv.dashboard()?);
    }
    let to = recv.word_after("listening at ")?;
    let fixed = ["send", "--to", &to, "--key", &camera, "--peer"];
    let options = [&fixed[..], &[&studio_public], dashboard, &[&film]].concat();
    let mut send = Running::start(program, &options)?;
    if viewers > 0 {
        addresses.push(send.dashboard()?);
    }
    for address in addresses {
        for _ in 0..viewers {
            // It ends with the program.
            std::thread::spawn(move || view(address));
        }
    }
    std::thread::park_timeout(WARM_UP);
    let before = [send.cost()?, recv.cost()?];
    std::thread::park_timeout(Duration::from_secs(seconds));
    let after = [send.cost()?, recv.cost()?];
    Ok([0, 1].map(|end| Cost {
        all: (after[end].all - before[end].all) / seconds as f64,
        observation: (after[end].observation - before[end].observation) / seconds as f64,
    }))
}

fn main() -> io::Result<()> {
    let seconds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(20);
    let this = std::env::current_exe()?;
    let beside = this.ancestors().nth(2).unwrap_or(Path::new("."));
    let program = std::env::var_os("ANABRANCH")
        .map(PathBuf::from)
        .unwrap_or_else(|| beside.join("anabranch"));
    let folder = std::env::temp_dir().join(format!("anabranch-dashboard-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    make_film(&folder.join("film.ts"), seconds + 10)?;
    // Before and after, since the machine's other work changes.
    let runs = [0, VIEWERS, 0].map(|viewers| measure(&program, &folder, seconds, viewers));
    std::fs::remove_dir_all(&folder)?;
    let [before, with_viewers, after] = runs;
    let (before, with_viewers, after) = (before?, with_viewers?, after?);
    let mut is_cheap = true;
    for (index, end) in ["sender", "receiver"].into_iter().enumerate() {
        let share = with_viewers[index].observation;
        is_cheap &= share <= MAX_SHARE;
        println!(
            "{end} of 6 Mbit/s: {:.2} and {:.2} % of a core alone, {:.2} % with {VIEWERS} viewers \
             of its dashboard; of these its threads take {:.2} % (at most {:.0} %)",
            before[index].all * 100.0,
            after[index].all * 100.0,
            with_viewers[index].all * 100.0,
            share * 100.0,
            MAX_SHARE * 100.0,
        );
    }
    if is_cheap {
        Ok(())
    } else {
        Err(io::Error::other("the dashboard costs too much"))
    }
}
