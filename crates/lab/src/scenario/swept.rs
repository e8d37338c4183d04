//! Sweeps in which some points may be impossible.

use std::path::Path;

use anabranch_units::Seed;

use super::algorithms::Algorithms;
use super::document::Document;
use super::error::ScenarioError;
use super::files::{Beside, Files};
use super::sweep::{self, Setting};
use super::{Scenario, named_text, written};

/// All points of a scenario's sweep, for studies that report an impossible point and go on.
#[derive(Debug)]
pub struct Swept {
    /// Name of the scenario.
    pub name: String,
    /// Sixteen hexadecimal digits that depend on the name, all values, and the contents of all
    /// files that the scenario names. Comments and the places of files do not matter.
    pub hash: String,
    /// The points in order; a single one without settings if there is no sweep.
    pub points: Vec<SweptPoint>,
}

/// One point of a sweep.
#[derive(Debug)]
pub struct SweptPoint {
    /// Settings of the point.
    pub settings: Vec<Setting>,
    /// The scenario with these values, or their mistake.
    pub scenario: Result<Scenario, ScenarioError>,
}

impl Swept {
    /// Reads a file and every point of its sweep, as [`Point::load`](super::Point::load) does.
    ///
    /// # Errors
    /// A [`ScenarioError`] of the file, or that of the first point if all points are impossible.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Swept, ScenarioError> {
        let (name, text) = named_text(path)?;
        Swept::parse(&name, &text, overrides)
    }

    /// Reads the text of a file called `file`.
    ///
    /// ```
    /// use anabranch_lab::Swept;
    ///
    /// let text = r#"
    /// duration = "1 s"
    /// links.up = { rate = "1 Mbit/s", delay = "5 ms" }
    /// routes.only = { forward = ["up"], reverse = ["up"] }
    /// flows = [{ paths = ["only"] }]
    /// sweep = { "links.up.loss" = [0.1, 2] }
    /// "#;
    /// let swept = Swept::parse("small.toml", text, &[])?;
    /// let is_possible = swept.points.iter().map(|point| point.scenario.is_ok());
    /// assert_eq!(is_possible.collect::<Vec<_>>(), [true, false]);
    /// # Ok::<(), anabranch_lab::ScenarioError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Swept::load`].
    pub fn parse(file: &str, text: &str, overrides: &[String]) -> Result<Swept, ScenarioError> {
        fn point(
            (settings, scenario): (Vec<Setting>, Result<Scenario, ScenarioError>),
        ) -> SweptPoint {
            SweptPoint { settings, scenario }
        }

        let beside = Beside::new(file);
        let files = Files::OnDisk(&beside);
        let document = Document::parse(file, text, files, overrides)?;
        let mut points: Vec<SweptPoint> = sweep::points(&document, file, files, Algorithms::NONE)?
            .map(point)
            .collect();
        if points.iter().all(|point| point.scenario.is_err()) {
            points.truncate(1);
            if let Some(SweptPoint { scenario, .. }) = points.pop() {
                scenario?;
            }
        }
        let name = Path::new(file)
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let parts = [
            written::text_of(document.root().clone(), file)?,
            beside.summary(),
        ];
        let hash = parts
            .iter()
            .fold(Seed(0).derive(&name), |seed, part| seed.derive(part));
        Ok(Swept {
            name,
            hash: format!("{:016x}", hash.0),
            points,
        })
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const TEXT: &str = "duration = \"1 s\"\nlinks.up = { trace = \"up.trace\" }\n\
        routes.only = { forward = [\"up\"], reverse = [\"up\"] }\n\
        flows = [{ paths = [\"only\"] }]\nsweep = { \"links.up.loss\" = [0.1, 2] }\n";

    #[test]
    fn a_hash_depends_on_values_and_files_and_not_on_comments_and_folders() {
        fn hash(folder: &TempDir, text: &str, trace: &str, overrides: &[&str]) -> String {
            std::fs::write(folder.path().join("up.trace"), trace).unwrap();
            let file = folder.path().join("swept.toml").display().to_string();
            let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
            Swept::parse(&file, text, &overrides).unwrap().hash
        }

        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [one, other] = &folders;
        let first = hash(one, TEXT, "1\n2\n", &[]);
        assert_eq!(hash(other, &format!("# new\n{TEXT}"), "1\n2\n", &[]), first);
        assert_ne!(hash(one, TEXT, "1\n3\n", &[]), first);
        assert_ne!(hash(one, TEXT, "1\n2\n", &["duration=2 s"]), first);
        let more = TEXT.replace("[0.1, 2]", "[0.1, 0.2]");
        assert_ne!(hash(one, &more, "1\n2\n", &[]), first);
    }

    #[test]
    fn a_sweep_without_a_possible_point_is_a_mistake() {
        let text = TEXT.replace("trace = \"up.trace\"", "rate = \"1 Mbit/s\"");
        let impossible = text.replace("[0.1, 2]", "[3, 2]");
        let error = Swept::parse("swept.toml", &impossible, &[]).unwrap_err();
        assert!(error.to_string().contains("links.up.loss"), "{error}");
        let points = Swept::parse("swept.toml", &text, &[]).unwrap().points;
        let error = points[1].scenario.as_ref().unwrap_err().to_string();
        assert!(error.starts_with("swept.toml:5: links.up.loss"), "{error}");
        assert_eq!(points[1].settings[0].value, "2");
    }
}
