//! Output of the records that libraries log.
//!
//! Libraries report by the facade `log` and never print: a host without a logger has a quiet
//! library. The programs print those reports as their own lines.

use log::{LevelFilter, Log, Metadata, Record};

use crate::print::{self, Level};

/// Beginning of the targets of this project's crates. Reports of other crates are not printed.
const OUR_TARGETS: &str = "anabranch";

/// Prints the records of this project's libraries from now on: warnings as [`print::warn`] does,
/// and information as [`print::note`] does. A logger that exists already stays.
pub fn print_library_logs() {
    if log::set_logger(&Printer).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

/// Logger that prints.
struct Printer;

impl Log for Printer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        level_of(metadata).is_some()
    }

    fn log(&self, record: &Record<'_>) {
        if let Some(level) = level_of(record.metadata()) {
            print::say(level, record.args());
        }
    }

    fn flush(&self) {}
}

/// Returns the importance of the printed line, or `None` if the record is not printed.
fn level_of(metadata: &Metadata<'_>) -> Option<Level> {
    if !metadata.target().starts_with(OUR_TARGETS) {
        return None;
    }
    match metadata.level() {
        log::Level::Error => Some(Level::Error),
        log::Level::Warn => Some(Level::Warning),
        log::Level::Info => Some(Level::Info),
        log::Level::Debug | log::Level::Trace => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(target: &str, level: log::Level) -> Option<Level> {
        level_of(&Metadata::builder().target(target).level(level).build())
    }

    #[test]
    fn reports_of_our_libraries_have_the_levels_of_lines() {
        let ours = "anabranch_observe::server";
        assert_eq!(level(ours, log::Level::Error), Some(Level::Error));
        assert_eq!(level(ours, log::Level::Warn), Some(Level::Warning));
        assert_eq!(level(ours, log::Level::Info), Some(Level::Info));
        assert_eq!(level(ours, log::Level::Debug), None);
        assert_eq!(level(ours, log::Level::Trace), None);
    }

    #[test]
    fn reports_of_other_crates_are_not_printed() {
        for target in ["tungstenite::protocol", "mio", ""] {
            assert_eq!(level(target, log::Level::Error), None, "{target}");
        }
        let metadata = Metadata::builder().target("mio").build();
        assert!(!Printer.enabled(&metadata));
    }
}
