//! Films as a table, as JSON, as CSV, and as a page beside the papers' claims.

use std::fmt::Write as _;

use serde_json::{Value, json as object};

use super::claims;
use super::films::{Film, Group};
use super::networks::Testbed;

/// Returns all films for programs.
///
/// # Errors
/// A number has no form in JSON.
pub(super) fn json(films: &[Film]) -> anyhow::Result<String> {
    let films: Vec<Value> = films.iter().map(film_json).collect();
    let document = object!({ "schema": "anabranch-testbed/1", "films": films });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn film_json(film: &Film) -> Value {
    object!({
        "world": film.world.name(),
        "network": film.network,
        "row": film.row,
        "number": film.number,
        "underflows": film.underflows,
        "stalled_seconds": film.stalled_seconds,
        "discards": film.discards,
        "path_megabits_per_second": film.path_megabits,
        "resent_packets": film.resent,
        "dropped_packets": film.dropped,
        "lasted_seconds": film.lasted_seconds,
        "void": film.void,
    })
}

/// Returns all films as CSV; rates of paths are separated by spaces.
pub(super) fn csv(films: &[Film]) -> String {
    let mut text = "world,network,row,number,underflows,stalled_s,discards,path_mbit_s,\
                    resent,dropped,lasted_s,void\n"
        .to_owned();
    for film in films {
        let rates = film.path_megabits.iter().map(|rate| format!("{rate:.3}"));
        let _ = writeln!(
            text,
            "{},{},{},{},{},{:.1},{},{},{},{},{:.1},{}",
            film.world.name(),
            film.network,
            film.row,
            film.number,
            film.underflows,
            film.stalled_seconds,
            film.discards,
            rates.collect::<Vec<_>>().join(" "),
            film.resent,
            film.dropped,
            film.lasted_seconds,
            film.void.as_deref().unwrap_or_default(),
        );
    }
    text
}

/// Returns the page: all rows, and the paper's claims beside both worlds.
pub(super) fn markdown(paper: Testbed, seconds: u64, films: &[Film]) -> String {
    let mut text = format!("# The testbed of {}\n\n", paper.title());
    let _ = writeln!(
        text,
        "Films of {seconds} s. Means over the films of a row: underflows after the start, seconds \
         without a new\npicture, discards without those of a control from disk, seconds from the \
         request to the end or the\nlimit, Mbit/s on the wire of each path over the film's \
         length, packets sent again.\n"
    );
    text += "| network | row | world | films | void | underflows | stalled | discards | lasted | \
             Mbit/s | resent |\n|---|---|---|---|---|---|---|---|---|---|---|\n";
    for group in groups(films) {
        line(&mut text, &group);
    }
    voids(&mut text, films);
    text += "\n## Claims\n\n| claim | the paper says | kernel | simulator |\n|---|---|---|---|\n";
    for claim in claims::judged(paper, films) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            claim.id, claim.text, claim.kernel, claim.simulator
        );
    }
    text
}

/// Names the films that do not count, with their reasons.
fn voids(text: &mut String, films: &[Film]) {
    let mut is_first = true;
    for film in films {
        let Some(reason) = &film.void else {
            continue;
        };
        if is_first {
            *text += "\nVoid films:\n\n";
            is_first = false;
        }
        let (network, row, number) = (&film.network, &film.row, film.number);
        let _ = writeln!(
            text,
            "- {network}, {row}, number {number}: {reason}; {} underflows, {:.0} s stalled",
            film.underflows, film.stalled_seconds
        );
    }
}

fn groups(films: &[Film]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for film in films {
        let is_known = groups.iter().any(|group| {
            group.world == film.world && group.network == film.network && group.row == film.row
        });
        if !is_known {
            groups.extend(Group::of(films, film.world, &film.network, &film.row));
        }
    }
    groups.sort_by_key(|group| (group.network, group.row, group.world.name()));
    groups
}

fn line(text: &mut String, group: &Group<'_>) {
    let path_count = group
        .films
        .first()
        .map_or(0, |film| film.path_megabits.len());
    let rates: Vec<String> = (0..path_count)
        .map(|index| group.cell(2, |film| film.path_megabits[index]))
        .collect();
    let _ = writeln!(
        text,
        "| {} | {} | {} | {} | {} | {} | {} s | {} | {} s | {} | {} |",
        group.network,
        group.row,
        group.world.name(),
        group.films.len(),
        group.void_count,
        group.cell(1, |film| film.underflows as f64),
        group.cell(1, |film| film.stalled_seconds),
        group.cell(1, |film| film.discards as f64),
        group.cell(1, |film| film.lasted_seconds),
        rates.join(" + "),
        group.cell(0, |film| film.resent as f64),
    );
}

#[cfg(test)]
mod tests {
    use super::super::films::World;
    use super::super::films::testing::film;
    use super::*;

    #[test]
    fn a_void_film_does_not_count() {
        let void = Film {
            underflows: 9,
            void: Some("late".to_owned()),
            ..film(World::Kernel, "A", "cubic")
        };
        let films = [film(World::Kernel, "A", "cubic"), void];
        let text = markdown(Testbed::Kondo, 180, &films);
        let row =
            "| A | cubic | kernel | 1 | 1 | 0.0 | 0.0 s | 0.0 | 180.0 s | 2.80 + 2.80 | 100 |";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn a_line_of_csv_has_a_film() {
        let text = csv(&[film(World::Simulator, "A", "cubic")]);
        let expected = "simulator,A,cubic,1,0,0.0,0,2.800 2.800,100,90,180.0,";
        assert_eq!(text.lines().nth(1), Some(expected));
        let parsed: Value =
            serde_json::from_str(&json(&[film(World::Proxy, "A", "proxy:lpc")]).unwrap()).unwrap();
        assert_eq!(parsed["films"][0]["world"], "proxy");
    }
}
