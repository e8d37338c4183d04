//! Destinations of streams: outputs for each stream, or the same outputs for all, one at a time.

use core::str::FromStr;
use std::path::PathBuf;

use anabranch_mpegts_io::{OutputName, Rotation};
use anabranch_observe::StandardOutput;
use anabranch_terminal::print;
use anyhow::{bail, ensure};

use crate::allowed::StreamName;

/// Placeholder for a stream's name in the name of an output.
const NAME: &str = "{name}";

/// One output of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    /// The only stream of this output, by `NAME=`.
    stream: Option<StreamName>,
    /// The output. Its name may have `{name}` in it.
    output: OutputName,
    text: String,
}

impl Destination {
    /// Returns whether the output takes every stream.
    fn is_shared(&self) -> bool {
        !self.text.contains(NAME) && self.stream.is_none()
    }

    /// Checks the output before its stream is known.
    fn check(&self, rotation: Option<Rotation>) -> anyhow::Result<()> {
        // Parameters may name a file of the stream.
        if !self.output.is_file() && self.text.contains(NAME) {
            return Ok(());
        }
        Ok(self.output.check(rotation)?)
    }

    /// Returns whether it is standard output.
    pub(super) fn is_stdout(&self) -> bool {
        self.output == OutputName::Stdout
    }
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (stream, output) = StreamName::before(text);
        Ok(Destination {
            stream,
            output: output.parse()?,
            text: output.to_owned(),
        })
    }
}

/// Checks outputs before their streams are known. Otherwise the first sender would be the one to
/// find a mistake.
///
/// # Errors
/// One could not be written by any stream, or `rotation` has no file.
pub(super) fn check(all: &[Destination], rotation: Option<Rotation>) -> anyhow::Result<()> {
    let has_file = all.iter().any(|destination| destination.output.is_file());
    ensure!(
        rotation.is_none() || has_file,
        "--rotate is for files, and no output is one"
    );
    all.iter()
        .try_for_each(|destination| destination.check(rotation))
}

/// All outputs.
#[derive(Clone, Debug)]
pub(crate) struct Destinations {
    all: Vec<Destination>,
    are_shared: bool,
}

impl Destinations {
    /// Collects the outputs. `has_several`: whether there may be more than one stream.
    ///
    /// # Errors
    /// Some outputs are for all streams, and others are not.
    pub(crate) fn new(all: Vec<Destination>, has_several: bool) -> anyhow::Result<Self> {
        let shared = all.iter().find(|destination| destination.is_shared());
        let own = all.iter().find(|destination| !destination.is_shared());
        match (shared, own) {
            (Some(shared), Some(own)) if has_several => bail!(
                "{} is for every stream, and {} for one: with several senders, say whose output \
                 each is, as NAME={} or with {NAME} in the file's name",
                shared.text,
                own.text,
                shared.text
            ),
            (shared, _) => Ok(Destinations {
                are_shared: shared.is_some() && has_several,
                all,
            }),
        }
    }

    /// Returns whether streams have the same outputs, and therefore wait for one another.
    pub(crate) fn are_shared(&self) -> bool {
        self.are_shared
    }

    /// Returns whether a stream goes to standard output.
    pub(crate) fn standard_output(&self) -> StandardOutput {
        let mut all = self.all.iter();
        if all.any(|destination| destination.output == OutputName::Stdout) {
            StandardOutput::CarriesVideo
        } else {
            StandardOutput::Free(print::library_line)
        }
    }

    /// Returns the names of all files, with words in braces.
    pub(crate) fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.all
            .iter()
            .filter_map(|destination| match &destination.output {
                OutputName::File(path) => Some(path.clone()),
                _ => None,
            })
    }

    /// Returns the outputs of a stream.
    ///
    /// # Errors
    /// It has none.
    pub(crate) fn of(&self, stream: &StreamName) -> anyhow::Result<Vec<OutputName>> {
        let its = self.all.iter().filter(|destination| {
            let only = destination.stream.as_ref();
            only.is_none_or(|only| only == stream)
        });
        let outputs: Vec<_> = its
            .map(|destination| destination.output.with(NAME, stream.as_str()))
            .collect();
        if outputs.is_empty() {
            let name = stream.as_str();
            bail!("there is no output for {name}: {name}=OUTPUT, or one with {NAME} in it");
        }
        Ok(outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destinations(texts: &[&str], has_several: bool) -> anyhow::Result<Destinations> {
        let all = texts.iter().map(|text| text.parse().unwrap()).collect();
        Destinations::new(all, has_several)
    }

    fn outputs(of: &Destinations, stream: &str) -> Vec<OutputName> {
        of.of(&stream.parse().unwrap()).unwrap()
    }

    #[test]
    fn each_stream_has_its_own() {
        let texts = ["front=udp://127.0.0.1:6000", "roof=-", "rec/{name}.ts"];
        let destinations = destinations(&texts, true).unwrap();
        assert!(!destinations.are_shared());
        assert_eq!(
            outputs(&destinations, "front"),
            [
                OutputName::Udp("udp://127.0.0.1:6000".parse().unwrap()),
                OutputName::File("rec/front.ts".into())
            ]
        );
        assert_eq!(outputs(&destinations, "roof")[0], OutputName::Stdout);
    }

    #[test]
    fn outputs_without_a_name_are_everybodys_in_turn() {
        assert!(destinations(&["out.ts"], true).unwrap().are_shared());
        assert!(!destinations(&["out.ts"], false).unwrap().are_shared());
        let error = destinations(&["out.ts", "a=b.ts"], true).unwrap_err();
        assert!(error.to_string().contains("NAME=out.ts"), "{error}");
        destinations(&["out.ts", "a=b.ts"], false).unwrap();
    }

    fn check_one(text: &str, rotation: Option<&str>) -> Result<(), String> {
        let rotation = rotation.map(|rotation| rotation.parse().unwrap());
        let all = [text.parse().unwrap()];
        check(&all, rotation).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn outputs_are_examined_before_a_stream_comes() {
        for (text, rotation, part) in [
            ("out.mkv", None, "the format is MPEG-TS"),
            ("front=/none/{name}.ts", None, "there is no folder /none"),
            ("{name}.ts", Some("10 min"), "needs {time}"),
            (
                "udp://127.0.0.1:6000",
                Some("10 min"),
                "--rotate is for files",
            ),
            ("srt://127.0.0.1:1?latency=x", None, "latency"),
        ] {
            let error = check_one(text, rotation).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        check_one("{name}-{time}.ts", Some("10 min")).unwrap();
        check_one("srt://:9000?streamid={name}&passphrase_file={name}", None).unwrap();
    }

    #[test]
    fn a_stream_without_an_output_is_an_error() {
        let destinations = destinations(&["front=a.ts"], true).unwrap();
        let error = destinations.of(&"roof".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("roof=OUTPUT"), "{error}");
    }

    #[test]
    fn text_before_a_path_is_no_name() {
        let plain: Destination = "/tmp/a=b.ts".parse().unwrap();
        assert_eq!(plain.stream, None);
        assert_eq!(plain.output, OutputName::File("/tmp/a=b.ts".into()));
    }
}
