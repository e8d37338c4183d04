//! Shards: equal parts of the runs of a sweep.

use core::fmt;
use core::str::FromStr;

use anabranch_units::Seed;
use serde::{Deserialize, Serialize};

/// Largest number of shards. Chosen: a hundred times as many as clusters take as one array.
const MAX_COUNT: u64 = 1_000_000;

/// A part of the runs of a sweep, written `3/40`: the third of forty.
///
/// Each shard has one of every `count` consecutive runs. The first of them goes to a shard drawn by
/// chance, always the same, so that no shard has all the runs of an expensive setting.
///
/// ```
/// use anabranch_lab::Shard;
///
/// let shards: Vec<Shard> = vec!["1/3".parse()?, "2/3".parse()?, "3/3".parse()?];
/// let mut runs: Vec<u64> = shards.iter().flat_map(|shard| shard.runs(10)).collect();
/// runs.sort();
/// assert_eq!(runs, (0..10).collect::<Vec<u64>>());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Shard {
    /// Number of the shard, from 1.
    number: u64,
    /// Number of shards.
    count: u64,
}

impl Shard {
    /// The only shard of one: all runs.
    pub const WHOLE: Shard = Shard {
        number: 1,
        count: 1,
    };

    /// Returns the number of the shard, from 1.
    pub const fn number(self) -> u64 {
        self.number
    }

    /// Returns the number of shards.
    pub const fn count(self) -> u64 {
        self.count
    }

    /// Returns the shard of as many that has the run of this number, from 0.
    pub fn with_run(self, run: u64) -> Shard {
        let place = (run % self.count + self.first_place(run / self.count)) % self.count;
        Shard {
            number: place + 1,
            ..self
        }
    }

    /// Returns the numbers of its runs in order, if there are `run_count` of them, from 0.
    pub fn runs(self, run_count: u64) -> impl Iterator<Item = u64> {
        let blocks = 0..run_count.div_ceil(self.count);
        let runs = blocks.map(move |block| {
            let place = self.number - 1 + self.count - self.first_place(block);
            block * self.count + place % self.count
        });
        // The last block may be too short to have a run for each shard.
        runs.filter(move |run| *run < run_count)
    }

    /// Returns the place, from 0, of the shard that has the first run of a block.
    fn first_place(self, block: u64) -> u64 {
        Seed(block).derive("shard").rng().below(self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        fn parsed(text: &str) -> Option<u64> {
            text.trim().parse::<u64>().ok()
        }

        let numbers = text
            .split_once('/')
            .and_then(|(number, count)| Some((parsed(number)?, parsed(count)?)));
        match numbers {
            None => Err("write the number of the shard and that of all, as in 3/40".to_owned()),
            Some((_, 0)) => Err("there is at least one shard: write 1/1 for all runs".to_owned()),
            Some((_, count)) if count > MAX_COUNT => {
                Err(format!("there are at most {MAX_COUNT} shards"))
            }
            Some((number, count)) if !(1..=count).contains(&number) => Err(format!(
                "shards count from 1: write 1/{count} to {count}/{count}"
            )),
            Some((number, count)) => Ok(Shard { number, count }),
        }
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Shard, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> String {
        shard.to_string()
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(count: u64) -> impl Iterator<Item = Shard> {
        (1..=count).map(move |number| Shard { number, count })
    }

    #[test]
    fn shards_have_every_run_once_and_equal_numbers_of_them() {
        for (count, run_count) in [(1, 5), (7, 0), (7, 3), (7, 100), (40, 1_000), (3, 1)] {
            let mut seen = vec![0; run_count as usize];
            let mut sizes = Vec::new();
            for shard in all(count) {
                let runs: Vec<u64> = shard.runs(run_count).collect();
                assert!(runs.is_sorted());
                assert!(runs.iter().all(|run| shard.with_run(*run) == shard));
                runs.iter().for_each(|run| seen[*run as usize] += 1);
                sizes.push(runs.len());
            }
            assert!(seen.iter().all(|times| *times == 1), "{count} {run_count}");
            let spread = sizes.iter().max().unwrap() - sizes.iter().min().unwrap();
            assert!(spread <= 1, "{sizes:?}");
        }
    }

    #[test]
    fn no_shard_has_most_runs_of_one_value() {
        // Every fourth run has the expensive value. Dealt in turn, one of four shards had them all.
        for count in [3, 4, 5, 8] {
            for shard in all(count) {
                let runs: Vec<u64> = shard.runs(400 * count).collect();
                let expensive = runs.iter().filter(|run| **run % 4 == 0).count();
                // 400 draws with a chance of 1/4: 100, and five standard deviations of 8.7.
                assert!((56..144).contains(&expensive), "{shard}: {expensive}");
            }
        }
    }

    #[test]
    fn errors_show_valid_syntax() {
        for (text, answer) in [
            ("0/4", "1/4 to 4/4"),
            ("5/4", "1/4 to 4/4"),
            ("1/0", "at least one"),
            ("x", "as in 3/40"),
            ("3", "as in 3/40"),
            ("-1/4", "as in 3/40"),
            ("1/4/2", "as in 3/40"),
            ("1/1000001", "at most"),
        ] {
            let error = text.parse::<Shard>().unwrap_err();
            assert!(error.contains(answer), "{text}: {error}");
        }
        assert_eq!("3/40".parse::<Shard>().unwrap().to_string(), "3/40");
    }
}
