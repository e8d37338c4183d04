//! Rows: ways in which a film is carried.

use std::fmt;
use std::str::FromStr;

use anabranch_schedulers::by_name as scheduler;

use crate::kernel::programs::NAMES;

/// Controllers of the kernel itself.
const OF_KERNEL: [&str; 3] = ["cubic", "bbr", "reno"];
/// Schedulers of the papers and ours, which the proxy can have.
const OF_PROXY: [&str; 3] = ["earliest-completion", "lpc", "let"];

/// Way in which a film is carried over the links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// MPTCP of the kernel with this controller.
    Kernel(String),
    /// This project's proxy with this scheduler.
    Proxy(String),
}

impl Row {
    /// Returns the rows of a whole testbed.
    pub(super) fn all() -> Vec<Row> {
        let of_kernel = OF_KERNEL[..2].iter().chain(&NAMES).copied();
        let kernel = of_kernel.map(|name| Row::Kernel(name.to_owned()));
        let proxy = OF_PROXY.map(|name| Row::Proxy(name.to_owned()));
        kernel.chain(proxy).collect()
    }

    /// Returns the simulator's controller of the same algorithm; `None`: the simulator plays no
    /// film over the proxy.
    pub(super) fn simulated(&self) -> Option<String> {
        let Row::Kernel(name) = self else {
            return None;
        };
        let name = name.strip_prefix("bpf_").unwrap_or(name);
        Some(match name {
            "bbr" => "bbr-linux".to_owned(),
            "reno" => "new-reno".to_owned(),
            other => other.to_owned(),
        })
    }

    /// Returns whether it needs a controller of `anabranch-lab kernel`.
    pub(super) fn is_bpf(&self) -> bool {
        matches!(self, Row::Kernel(name) if NAMES.contains(&name.as_str()))
    }
}

impl FromStr for Row {
    type Err = String;

    fn from_str(text: &str) -> Result<Row, String> {
        if let Some(name) = text.strip_prefix("proxy:") {
            scheduler(name).map_err(|error| error.to_string())?;
            return Ok(Row::Proxy(name.to_owned()));
        }
        if OF_KERNEL.contains(&text) || NAMES.contains(&text) {
            return Ok(Row::Kernel(text.to_owned()));
        }
        let known = OF_KERNEL.iter().chain(&NAMES).copied().collect::<Vec<_>>();
        Err(format!(
            "no row: use {}, or proxy: and a scheduler",
            known.join(", ")
        ))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Row::Kernel(name) => f.write_str(name),
            Row::Proxy(name) => write!(f, "proxy:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_is_shown() {
        for row in Row::all() {
            assert_eq!(row.to_string().parse(), Ok(row));
        }
        for wrong in ["vegas", "proxy:", "proxy:none"] {
            assert!(wrong.parse::<Row>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn controllers_of_the_kernel_have_a_name_in_the_simulator() {
        for row in Row::all() {
            if let Some(name) = row.simulated() {
                assert!(anabranch_controllers::by_name(&name).is_ok(), "{name}");
            }
        }
    }
}
