//! Names that people mistype.

/// Returns the known names for a message about an unknown one: "a, b, c", or "none". If a known
/// name is near `asked`, the text asks whether it was meant.
pub fn known_names<'a>(asked: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    let known = names.join(", ");
    match nearest_name(asked, &names) {
        Some(name) => format!("{known}; did you mean {name:?}?"),
        None => known,
    }
}

/// Returns the probable name, if one is near: the nearest by edits, else the first one that begins
/// with the text or contains it.
pub fn nearest_name<'a>(asked: &str, names: &[&'a str]) -> Option<&'a str> {
    nearest(asked, names).or_else(|| {
        let asked = asked.to_lowercase();
        if asked.chars().count() < SHORTEST_PART {
            return None;
        }
        let holding = names
            .iter()
            .copied()
            .filter(|name| name.to_lowercase().contains(&asked));
        holding.min_by_key(|name| !name.to_lowercase().starts_with(&asked))
    })
}

/// Length below which a text is part of many names.
const SHORTEST_PART: usize = 3;

/// Returns the name that takes the fewest edits, at most a third of its length.
fn nearest<'a>(asked: &str, names: &[&'a str]) -> Option<&'a str> {
    let asked: Vec<char> = asked.to_lowercase().chars().collect();
    let edits = names.iter().map(|name| {
        let chars: Vec<char> = name.to_lowercase().chars().collect();
        (edit_count(&asked, &chars), chars.len(), *name)
    });
    let near = edits.filter(|(edit_count, length, _)| *edit_count <= (length / 3).max(1));
    // The first of equally near ones.
    near.min_by_key(|(edit_count, ..)| *edit_count)
        .filter(|(edit_count, length, _)| edit_count < length)
        .map(|(.., name)| name)
}

/// Returns the number of characters to insert, remove, change or swap with their neighbours to get
/// from one to the other (the optimal string alignment distance).
fn edit_count(from: &[char], to: &[char]) -> usize {
    // Edit counts of each beginning of `to`, for the beginnings of `from` two and one characters
    // shorter.
    let mut last_but_one: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, from_char) in from.iter().enumerate() {
        let mut next = vec![row + 1];
        for (column, to_char) in to.iter().enumerate() {
            let change = last[column] + usize::from(from_char != to_char);
            let mut fewest = change.min(last[column + 1] + 1).min(next[column] + 1);
            let is_swap =
                row > 0 && column > 0 && *from_char == to[column - 1] && from[row - 1] == *to_char;
            if is_swap {
                fewest = fewest.min(last_but_one[column - 1] + 1);
            }
            next.push(fewest);
        }
        last_but_one = core::mem::replace(&mut last, next);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 6] = ["bbr3", "cubic", "delay-bbr", "gcc", "min-cost", "wrr"];

    #[test]
    fn near_names_are_matched() {
        for (asked, meant) in [
            ("delaybbr", "delay-bbr"),
            ("Delay_BBR", "delay-bbr"),
            ("min-cots", "min-cost"),
            ("cubik", "cubic"),
            ("bbr", "bbr3"),
            ("gc", "gcc"),
        ] {
            assert_eq!(nearest(asked, &NAMES), Some(meant), "{asked}");
        }
        for asked in ["", "x", "reno", "round-robin", "delay"] {
            assert_eq!(nearest(asked, &NAMES), None, "{asked}");
        }
    }

    #[test]
    fn a_part_of_a_name_stands_for_it_and_its_beginning_first() {
        let names = ["own-zhang", "zhang-delay-bbr", "zhang-multipath", "kondo"];
        assert_eq!(nearest_name("zhang", &names), Some("zhang-delay-bbr"));
        assert_eq!(nearest_name("Delay", &names), Some("zhang-delay-bbr"));
        for asked in ["", "zh", "delays"] {
            assert_eq!(nearest_name(asked, &names), None, "{asked}");
        }
    }

    #[test]
    fn edits_are_counted_and_a_swap_is_one() {
        fn count(from: &str, to: &str) -> usize {
            let [from, to] = [from, to].map(|text| text.chars().collect::<Vec<_>>());
            edit_count(&from, &to)
        }
        for (from, to, expected) in [
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("abc", "axc", 1),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(count(from, to), expected, "{from} {to}");
        }
    }

    #[test]
    fn all_names_are_listed_and_the_nearest_asked_about() {
        let names = ["rate", "delay"];
        assert_eq!(known_names("loss", names), "rate, delay");
        assert_eq!(
            known_names("rat", names),
            "rate, delay; did you mean \"rate\"?"
        );
        assert_eq!(known_names("rat", []), "none");
    }
}
