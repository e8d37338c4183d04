//! Words for many controllers or schedulers.

use anabranch_controllers::CONTROLLERS;
use anabranch_schedulers::SCHEDULERS;

/// Word for all of them.
const ALL: &str = "all";
/// Word for all controllers except [`NOT_OF_MEDIA`].
const ALL_MEDIA: &str = "all-media";

/// The window controllers of TCP, and `fixed`, which ignores feedback.
const NOT_OF_MEDIA: [&str; 13] = [
    "balia", "bic", "ccp", "ccpd", "compound", "cubic", "fixed", "lia", "new-reno", "olia", "reno",
    "vegas", "wvegas",
];

/// Returns `names` with the controllers that `all` and `all-media` mean in their places. They are
/// in the order of `anabranch-lab list controllers`, without those that `names` contains anyway.
pub fn expanded_controllers(names: &[String]) -> Vec<String> {
    let known: Vec<&str> = CONTROLLERS.iter().map(|entry| entry.name).collect();
    expanded(names, &known, |word| match word {
        ALL => Some(|_| true),
        ALL_MEDIA => Some(|name| !NOT_OF_MEDIA.contains(&name)),
        _ => None,
    })
}

/// Does the same for schedulers: `all` means those that `anabranch-lab list schedulers` lists.
pub fn expanded_schedulers(names: &[String]) -> Vec<String> {
    let known: Vec<&str> = SCHEDULERS.iter().map(|entry| entry.name).collect();
    expanded(names, &known, |word| (word == ALL).then_some(|_| true))
}

/// Test of the known names that a word means; `None`: it is a name itself.
type Meaning = fn(&str) -> Option<fn(&str) -> bool>;

fn expanded(names: &[String], known: &[&str], meaning: Meaning) -> Vec<String> {
    let mut expanded: Vec<String> = Vec::new();
    for name in names {
        let Some(is_meant) = meaning(name) else {
            expanded.push(name.clone());
            continue;
        };
        let meant = known.iter().map(|name| (*name).to_owned());
        let new: Vec<String> = meant
            .filter(|name| is_meant(name) && !names.contains(name))
            .filter(|name| !expanded.contains(name))
            .collect();
        expanded.extend(new);
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn expanded(names: &[&str]) -> Vec<String> {
        expanded_controllers(&owned(names))
    }

    #[test]
    fn all_schedulers_are_those_registered_without_the_oracle() {
        let names = expanded_schedulers(&owned(&["min-cost", "all", "oracle"]));
        assert_eq!((&names[0][..], &names[1][..]), ("min-cost", "anabranch"));
        assert_eq!(names.len(), SCHEDULERS.len() + 1);
        assert_eq!(names.last().unwrap(), "oracle");
    }

    #[test]
    fn all_is_what_there_is_and_media_is_all_but_windows_of_tcp() {
        let names: Vec<&str> = CONTROLLERS.iter().map(|entry| entry.name).collect();
        assert_eq!(expanded(&["all"]), names);
        let media = expanded(&["all-media"]);
        assert_eq!(media.len(), names.len() - NOT_OF_MEDIA.len());
        assert!(NOT_OF_MEDIA.iter().all(|name| names.contains(name)));
        for name in ["bbr-linux-4.9", "delay-bbr", "rap", "tfrc-conservative"] {
            assert!(media.iter().any(|media| media == name), "{name}");
        }
    }

    #[test]
    fn named_controllers_keep_their_order() {
        let names = expanded(&["live-bbr", "all-media", "cubic", "all"]);
        assert_eq!((&names[0][..], &names[1][..]), ("live-bbr", "arc"));
        assert_eq!(names.len(), CONTROLLERS.len());
        let cubic = names.iter().filter(|name| *name == "cubic");
        assert_eq!(cubic.count(), 1);
        assert_eq!(expanded(&["nada", "nada"]), ["nada", "nada"]);
    }
}
