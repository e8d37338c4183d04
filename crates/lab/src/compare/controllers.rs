//! Words that stand for many controllers.

use anabranch_controllers::CONTROLLERS;

/// Every controller there is.
const ALL: &str = "all";
/// Every controller but those in [`NOT_OF_MEDIA`].
const ALL_MEDIA: &str = "all-media";

/// The windows of TCP, and what hears nothing.
const NOT_OF_MEDIA: [&str; 9] = [
    "bic", "ccp", "ccpd", "compound", "cubic", "fixed", "new-reno", "reno", "vegas",
];

/// `names` with all that `all` and `all-media` stand for in their places, in the order of
/// `anabranch controllers` and without what is named besides.
pub fn expanded_controllers(names: &[String]) -> Vec<String> {
    let mut expanded: Vec<String> = Vec::new();
    for name in names {
        let is_meant: fn(&str) -> bool = match name.as_str() {
            ALL => |_| true,
            ALL_MEDIA => |name| !NOT_OF_MEDIA.contains(&name),
            _ => {
                expanded.push(name.clone());
                continue;
            }
        };
        let meant = CONTROLLERS.iter().map(|entry| entry.name.to_owned());
        let new = meant.filter(|name| is_meant(name) && !names.contains(name));
        let new: Vec<String> = new.filter(|name| !expanded.contains(name)).collect();
        expanded.extend(new);
    }
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(names: &[&str]) -> Vec<String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        expanded_controllers(&names)
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
    fn what_is_named_keeps_its_place() {
        let names = expanded(&["live-bbr", "all-media", "cubic", "all"]);
        assert_eq!((&names[0][..], &names[1][..]), ("live-bbr", "arc"));
        assert_eq!(names.len(), CONTROLLERS.len());
        let cubic = names.iter().filter(|name| *name == "cubic");
        assert_eq!(cubic.count(), 1);
        assert_eq!(expanded(&["nada", "nada"]), ["nada", "nada"]);
    }
}
