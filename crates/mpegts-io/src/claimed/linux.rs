//! The helper's socket is found among its files, and connected.

use std::fs;
use std::net::UdpSocket;
use std::os::fd::OwnedFd;

use anabranch_units::Duration;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::{Child, Claim};

/// Interval of looks for the helper's socket, and their number: ten seconds.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const LOOKS: u32 = 500;

impl Claim {
    /// Connects the helper's socket as soon as there is one. Without the permission to do so,
    /// as in some containers, it stays open to all.
    pub(in super::super) fn start(self, child: &Child) {
        let pid = Pid::from_child(child);
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            return;
        };
        // It ends by itself.
        let _ = std::thread::Builder::new()
            .name("claim".to_owned())
            .spawn(move || {
                for _ in 0..LOOKS {
                    if self.connect(pid, &process) {
                        return;
                    }
                    std::thread::park_timeout(POLL_INTERVAL.to_std());
                }
            });
    }

    /// Returns whether the search is over: the socket is connected, or the helper has ended.
    pub(super) fn connect(self, pid: Pid, process: &OwnedFd) -> bool {
        let Ok(files) = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())) else {
            return true;
        };
        let numbers = files.filter_map(|file| file.ok()?.file_name().to_str()?.parse().ok());
        let sockets = numbers.filter_map(|number| {
            let file = pidfd_getfd(process, number, PidfdGetfdFlags::empty());
            Some(UdpSocket::from(file.ok()?))
        });
        let mut found = sockets.filter(|socket| {
            let address = socket.local_addr();
            address.is_ok_and(|address| address == self.at)
        });
        found.any(|socket| socket.connect(self.source).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::Ipv4Addr;
    use std::process::{Command, Stdio};

    use super::*;

    const HELPER: &str = "import socket\n\
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        s.bind(('127.0.0.1', 0))\n\
        print(s.getsockname()[1], flush=True)\n\
        print(s.recv(100).decode(), flush=True)\n\
        print(s.recv(100).decode(), flush=True)\n";

    #[test]
    fn a_helper_hears_its_source_alone() {
        let own = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let other = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut helper = Command::new("python3")
            .args(["-I", "-c", HELPER])
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python is there");
        let mut lines = BufReader::new(helper.stdout.take().unwrap()).lines();
        let port: u16 = lines.next().unwrap().unwrap().parse().unwrap();
        let claim = Claim {
            at: (Ipv4Addr::LOCALHOST, port).into(),
            source: own.local_addr().unwrap(),
        };
        let pid = Pid::from_child(&helper);
        let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        let elsewhere = Claim {
            at: (Ipv4Addr::LOCALHOST, 1).into(),
            ..claim
        };
        assert!(!elsewhere.connect(pid, &process), "no such socket");
        assert!(claim.connect(pid, &process), "a child's socket");
        for text in ["one", "two"] {
            for _ in 0..100 {
                // Refused by the kernel.
                let _ = other.send_to(b"flood", claim.at);
            }
            own.send_to(text.as_bytes(), claim.at).unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), text);
        }
        helper.wait().unwrap();
    }
}
