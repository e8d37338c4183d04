//! The files that a scenario names: on disk beside its own, or in the program.

use std::path::Path;

/// Where the files are that a scenario names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Files<'a> {
    /// In this folder.
    In(&'a Path),
    /// In the program: names, as the scenario writes them, and texts.
    BuiltIn(&'a [(&'a str, &'a str)]),
}

impl<'a> Files<'a> {
    /// Those in the folder of the scenario's own file.
    pub(super) fn beside(file: &'a str) -> Files<'a> {
        Files::In(Path::new(file).parent().unwrap_or(Path::new("")))
    }

    /// The text of the file called `name`; why it cannot be read is the error.
    pub(super) fn read(&self, name: &str) -> Result<String, String> {
        match self {
            Files::In(folder) => {
                std::fs::read_to_string(folder.join(name)).map_err(|error| error.to_string())
            }
            Files::BuiltIn(files) => {
                let found = files.iter().find(|(known, _)| *known == name);
                let (_, text) = found.ok_or("it is not part of the program")?;
                Ok((*text).to_owned())
            }
        }
    }

    /// What messages call the file called `name`.
    pub(super) fn path_of(&self, name: &str) -> String {
        match self {
            Files::In(folder) => folder.join(name).display().to_string(),
            Files::BuiltIn(_) => name.to_owned(),
        }
    }
}
