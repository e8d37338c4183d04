//! Changes of paths that the user makes while the session runs.

use anabranch_core::PathId;
use anabranch_net::Sender;
use anabranch_observe::control::{PathChange, PathControl, Refused};
use anabranch_units::{ByteCount, DataRate};

use super::PathManager;
use crate::usage::Caps;

/// Text that removes a limit.
const NONE: &str = "none";

/// A path's change whose texts have been read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Wanted {
    is_on: Option<bool>,
    is_metered: Option<bool>,
    cap: Option<Option<ByteCount>>,
    max: Option<Option<DataRate>>,
}

impl Wanted {
    fn of(change: &PathChange) -> Result<Self, Refused> {
        let cap = change.cap.as_deref().map(|text| limit("cap", text));
        let max = change.max.as_deref().map(|text| limit("max", text));
        let wanted = Wanted {
            is_on: change.on,
            is_metered: change.metered,
            cap: cap.transpose()?,
            max: max.transpose()?,
        };
        if wanted.max == Some(Some(DataRate::ZERO)) {
            let text = "max: a path that may carry nothing is switched off: \"on\": false";
            return Err(Refused::Wrong(text.to_owned()));
        }
        if wanted == Wanted::default() {
            let text = "there is no change: give on, metered, cap or max";
            return Err(Refused::Wrong(text.to_owned()));
        }
        Ok(wanted)
    }
}

/// Reads a limit, or the word for none.
fn limit<T>(name: &str, text: &str) -> Result<Option<T>, Refused>
where
    T: core::str::FromStr,
    T::Err: core::fmt::Display,
{
    if text == NONE {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|error| Refused::Wrong(format!("{name}: {error}, or \"{NONE}\"")))
}

impl PathManager {
    /// Returns the state of all paths.
    pub(in crate::send) fn controls(&self) -> Vec<PathControl> {
        let entries = self.entries.iter().zip(&self.names).enumerate();
        entries
            .map(|(path, (entry, name))| PathControl {
                path,
                name: name.clone(),
                on: !entry.is_off,
                metered: entry.is_metered,
                cap_bytes: entry.cap.map(|ByteCount(bytes)| bytes),
                max_bps: entry.path.options.max_rate.map(DataRate::bits_per_second),
            })
            .collect()
    }

    /// Returns whether these are changes of exactly the present paths.
    pub(in crate::send) fn has_names_of(&self, changes: &[PathChange]) -> bool {
        let mut named: Vec<&String> = changes.iter().map(|change| &change.path).collect();
        let mut present: Vec<&String> = self.names.iter().collect();
        named.sort();
        present.sort();
        named == present
    }

    /// Changes a path. Returns the change in words. If a part of it is refused, nothing changes.
    ///
    /// # Errors
    /// There is no such path, a text is wrong, or it is the last path that is on.
    pub(in crate::send) fn change(
        &mut self,
        change: &PathChange,
        sender: &Sender,
    ) -> Result<String, Refused> {
        let wanted = Wanted::of(change)?;
        let index = self.find(&change.path)?;
        if wanted.is_on == Some(false) && self.is_last_on(index) {
            return Err(Refused::NotNow(
                "it is the last path that is on: switch another one on first, or end the program"
                    .to_owned(),
            ));
        }
        if let Some(cap) = wanted.cap {
            self.set_cap(index, cap, sender)
                .map_err(|error| Refused::NotNow(format!("{error:#}")))?;
        }
        let path = PathId(index as u8);
        let is_used_up = self
            .caps
            .as_ref()
            .is_some_and(|caps| caps.is_used_up(index));
        let entry = &mut self.entries[index];
        if let Some(is_metered) = wanted.is_metered {
            entry.is_metered = is_metered;
        }
        if wanted.is_metered.is_some() || wanted.cap.is_some() {
            sender.set_metered(path, entry.is_metered || is_used_up);
        }
        if let Some(max) = wanted.max {
            entry.path.options.max_rate = max;
            sender.set_max_rate(path, max);
        }
        if let Some(is_on) = wanted.is_on {
            entry.is_off = !is_on;
            sender.switch_path(path, is_on);
        }
        let name = &self.names[index];
        Ok(format!("path {index} ({name}): {}", described(&wanted)))
    }

    /// Returns the number of a path by its name or number.
    fn find(&self, text: &str) -> Result<usize, Refused> {
        let by_name = self.names.iter().position(|name| name == text);
        by_name
            .or_else(|| text.parse().ok().filter(|index| *index < self.names.len()))
            .ok_or_else(|| {
                let known = self.names.join(", ");
                Refused::Unknown(format!("there is no path {text}: known are {known}"))
            })
    }

    fn is_last_on(&self, index: usize) -> bool {
        let mut others = self.entries.iter().enumerate();
        !others.any(|(at, entry)| at != index && !entry.is_off)
    }

    fn set_cap(
        &mut self,
        index: usize,
        cap: Option<ByteCount>,
        sender: &Sender,
    ) -> anyhow::Result<()> {
        let snapshot = sender.snapshot().paths.get(index).cloned();
        let caps = match &mut self.caps {
            Some(caps) => caps,
            None => self.caps.insert(Caps::new(self.state.clone())?),
        };
        caps.set(
            index,
            &self.names[index],
            cap,
            &snapshot.unwrap_or_default(),
        )?;
        let path = PathId(index as u8);
        sender.set_capped(path, cap.is_some());
        let mut volumes = caps.volumes();
        let volume = volumes.find(|(its, _)| *its == path).map(|(_, cap)| cap);
        sender.set_cap(path, volume);
        self.entries[index].cap = cap;
        self.entries[index].path.options.is_capped = cap.is_some();
        Ok(())
    }
}

/// Returns a change in words.
fn described(wanted: &Wanted) -> String {
    let on = wanted
        .is_on
        .map(|is_on| if is_on { "on" } else { "off" }.to_owned());
    let metered = wanted.is_metered.map(|is_metered| {
        if is_metered {
            "metered".to_owned()
        } else {
            "not metered".to_owned()
        }
    });
    let cap = wanted.cap.map(|cap| match cap {
        Some(cap) => format!("cap {cap}"),
        None => "no cap".to_owned(),
    });
    let max = wanted.max.map(|max| match max {
        Some(max) => format!("at most {max}"),
        None => "no limit of its rate".to_owned(),
    });
    let parts = [on, metered, cap, max].into_iter().flatten();
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(cap: Option<&str>, max: Option<&str>) -> PathChange {
        PathChange {
            path: "wwan0".to_owned(),
            cap: cap.map(str::to_owned),
            max: max.map(str::to_owned),
            ..PathChange::default()
        }
    }

    #[test]
    fn limits_are_read_before_anything_changes() {
        let wanted = Wanted::of(&change(Some("10GB"), Some("none"))).unwrap();
        assert_eq!(wanted.cap, Some(Some(ByteCount(10_000_000_000))));
        assert_eq!(wanted.max, Some(None));
        assert_eq!(described(&wanted), "cap 10 GB, no limit of its rate");
        for (cap, max, part) in [
            (Some("much"), None, "cap: "),
            (None, Some("3"), "or \"none\""),
            (None, Some("0"), "switched off"),
            (None, None, "give on, metered"),
        ] {
            let error = Wanted::of(&change(cap, max)).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
        let off = PathChange {
            on: Some(false),
            metered: Some(true),
            ..change(None, None)
        };
        assert_eq!(described(&Wanted::of(&off).unwrap()), "off, metered");
    }
}
