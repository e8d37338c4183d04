//! Films that were played, and groups of them.

/// World in which a film was played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum World {
    Kernel,
    Proxy,
    Simulator,
}

impl World {
    pub(super) fn name(self) -> &'static str {
        match self {
            World::Kernel => "kernel",
            World::Proxy => "proxy",
            World::Simulator => "simulator",
        }
    }
}

/// A film that was played.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Film {
    pub(super) world: World,
    pub(super) network: String,
    pub(super) row: String,
    /// Number of the film, or seed.
    pub(super) number: u64,
    /// Underflows after the start.
    pub(super) underflows: u64,
    pub(super) stalled_seconds: f64,
    /// Pictures discarded, without those of the control.
    pub(super) discards: u64,
    /// Bytes on the wire of each path, over the film's length.
    pub(super) path_megabits: Vec<f64>,
    /// Packets sent again.
    pub(super) resent: u64,
    /// Packets dropped by links.
    pub(super) dropped: u64,
    /// Seconds from the request to the end, or to the limit.
    pub(super) lasted_seconds: f64,
    /// Reason for which it shows nothing.
    pub(super) void: Option<String>,
}

/// Films of one row in one network and world.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    pub(super) world: World,
    pub(super) network: &'a str,
    pub(super) row: &'a str,
    pub(super) films: Vec<&'a Film>,
    pub(super) void_count: usize,
}

impl<'a> Group<'a> {
    /// Returns the films of one row, if there are any.
    pub(super) fn of(
        films: &'a [Film],
        world: World,
        network: &'a str,
        row: &'a str,
    ) -> Option<Group<'a>> {
        let all: Vec<&Film> = films
            .iter()
            .filter(|film| film.world == world && film.network == network && film.row == row)
            .collect();
        let valid: Vec<&Film> = all
            .iter()
            .filter(|film| film.void.is_none())
            .copied()
            .collect();
        (!all.is_empty()).then_some(Group {
            world,
            network,
            row,
            void_count: all.len() - valid.len(),
            films: valid,
        })
    }

    /// Returns the mean over its films that count; `None`: none does.
    pub(super) fn mean(&self, of: impl Fn(&Film) -> f64) -> Option<f64> {
        let sum: f64 = self.films.iter().map(|film| of(film)).sum();
        (!self.films.is_empty()).then(|| sum / self.films.len() as f64)
    }

    pub(super) fn cell(&self, digits: usize, of: impl Fn(&Film) -> f64) -> String {
        self.mean(of)
            .map_or_else(|| "–".to_owned(), |mean| format!("{mean:.digits$}"))
    }
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// Returns a film of this row.
    pub(crate) fn film(world: World, network: &str, row: &str) -> Film {
        Film {
            world,
            network: network.to_owned(),
            row: row.to_owned(),
            number: 1,
            underflows: 0,
            stalled_seconds: 0.0,
            discards: 0,
            path_megabits: vec![2.8, 2.8],
            resent: 100,
            dropped: 90,
            lasted_seconds: 180.0,
            void: None,
        }
    }
}
