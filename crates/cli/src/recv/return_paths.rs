//! Media and messages from the receiver to its senders: a stream for all senders, and messages for
//! one or all.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anabranch_core::Frame;
use anabranch_mpegts_io::{Input, InputName, Wanted};
use anabranch_net::{Clock, ReturnPath};
use anabranch_terminal::print;
use anabranch_terminal::stop::Stop;
use anabranch_units::DataRate;
use anyhow::Context;

use crate::allowed::StreamName;
use crate::message;

/// Options for media and messages to the senders.
#[derive(Debug, clap::Args)]
pub(crate) struct ReturnArguments {
    /// A stream for the senders, such as talkback or a return feed. They write it with --return-to.
    /// Inputs are those of `anabranch send`.
    #[arg(long, value_name = "INPUT")]
    return_input: Option<InputName>,
    /// Send the lines of this file, pipe or standard input to the senders as messages, such as
    /// tally. With several senders, a line begins with a stream's name, or with `*` for all.
    #[arg(long, value_name = "FILE|-")]
    messages: Option<PathBuf>,
}

/// The return paths to all connected senders.
#[derive(Clone, Debug, Default)]
pub(super) struct ReturnPaths(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    paths: Mutex<BTreeMap<StreamName, ReturnPath>>,
    /// Whether a sender has joined, which needs a key frame to decode the stream.
    has_joined: AtomicBool,
}

impl ReturnPaths {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<StreamName, ReturnPath>> {
        let paths = self.0.paths.lock();
        paths.unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the return path of a new session, in place of the stream's earlier one.
    pub(super) fn add(&self, stream: StreamName, path: ReturnPath) {
        self.lock().insert(stream, path);
        self.0.has_joined.store(true, Ordering::Relaxed);
    }

    /// Sends a frame to one stream's sender, or to all. Returns the number of frames sent.
    fn send(&self, to: Option<&str>, frame: &Frame) -> usize {
        let mut paths = self.lock();
        let mut count = 0;
        paths.retain(|stream, path| {
            if to.is_some_and(|to| to != stream.as_str()) {
                return true;
            }
            let sent = path.send_frame(frame);
            count += usize::from(sent.is_ok());
            // A frame without room is lost, as on any path that is too slow.
            sent != Err(anabranch_core::media::SendFrameError::Closed)
        });
        count
    }

    /// Returns the target bitrate of the slowest return path, and whether a sender has joined.
    fn wanted(&self) -> Wanted {
        let paths = self.lock();
        let targets = paths.values().filter_map(ReturnPath::target_bitrate);
        Wanted {
            bitrate: targets.min().unwrap_or(DataRate::ZERO),
            is_key: self.0.has_joined.swap(false, Ordering::Relaxed),
        }
    }

    /// Starts the requested stream and messages. `has_several`: whether messages name a stream.
    ///
    /// # Errors
    /// An input cannot be opened.
    pub(super) fn start(
        &self,
        arguments: ReturnArguments,
        has_several: bool,
        clock: Clock,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        if let Some(path) = arguments.messages {
            let (lines, return_paths) = (message::lines(path)?, self.clone());
            let thread = std::thread::Builder::new().name("messages-out".to_owned());
            thread
                .spawn(move || {
                    for line in lines {
                        let (to, text) = match line.split_once(char::is_whitespace) {
                            Some((to, text)) if has_several => (Some(to), text.trim()),
                            _ => (None, line.as_str()),
                        };
                        let to = to.filter(|to| *to != "*");
                        if return_paths.send(to, &message::frame(text, clock.now())) == 0 {
                            let recipient = to.unwrap_or("no sender is connected");
                            print::note(format_args!("message not sent ({recipient}): {text}"));
                        }
                    }
                })
                .context("cannot start a thread")?;
        }
        if let Some(name) = arguments.return_input {
            let input = Input::open(&name, None, stop, &clock)?;
            let (return_paths, stop) = (self.clone(), stop.clone());
            let thread = std::thread::Builder::new().name("return".to_owned());
            thread
                .spawn(move || {
                    let fed = input.run(
                        &clock,
                        &stop,
                        || return_paths.wanted(),
                        |unit, captured_at| {
                            return_paths.send(None, &unit.into_frame(captured_at).0);
                            true
                        },
                    );
                    if let Err(error) = fed {
                        print::note(format_args!("{:#}", anyhow::Error::from(error)));
                    }
                })
                .context("cannot start a thread")?;
        }
        Ok(())
    }
}
