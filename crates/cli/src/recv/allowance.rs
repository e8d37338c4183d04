//! Limits of names' average rates: a bucket of bytes for each limited name.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_units::{DataRate, Duration, Instant};

use crate::allowed::{AllowList, StreamName};

/// Capacity of a bucket as time: a few groups of pictures, so that a key frame or a busy scene is
/// no excess (chosen).
const BURST: Duration = Duration::from_secs(5);
/// Fill of the bucket, as time, at which a refused stream continues with a key frame.
const PAUSE: Duration = Duration::from_secs(1);
/// Minimum time between two reports.
const SILENCE: Duration = Duration::from_secs(10);

/// The buckets of all names.
#[derive(Clone, Debug, Default)]
pub(super) struct Allowances(Arc<Mutex<BTreeMap<StreamName, Bucket>>>);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    max: DataRate,
    /// Bytes that may arrive at once.
    room: u64,
    filled_at: Instant,
}

impl Bucket {
    fn full(max: DataRate, now: Instant) -> Self {
        Bucket {
            max,
            room: max.bytes_in(BURST),
            filled_at: now,
        }
    }

    /// Returns whether `bytes` may arrive now. `is_refused` means that the previous frame was
    /// refused.
    fn take(&mut self, now: Instant, bytes: u64, is_refused: bool) -> bool {
        let earned = self.max.bytes_in(now.saturating_since(self.filled_at));
        if earned > 0 {
            self.room = (self.room + earned).min(self.max.bytes_in(BURST));
            self.filled_at = now;
        }
        let needed = if is_refused {
            bytes.max(self.max.bytes_in(PAUSE))
        } else {
            bytes
        };
        let may_come = self.room >= needed;
        if may_come {
            self.room -= bytes;
        }
        may_come
    }
}

impl Allowances {
    /// Applies the limits of the list. A name whose limit is unchanged keeps its bucket.
    pub(super) fn update(&self, list: &AllowList, now: Instant) {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let limited = list.all().iter().filter_map(|allowed| {
            let max = list.limits_of(&allowed.name).max?;
            Some((allowed.name.clone(), max))
        });
        let kept = limited.map(|(name, max)| {
            let known = buckets.get(&name).filter(|bucket| bucket.max == max);
            let bucket = known.copied().unwrap_or_else(|| Bucket::full(max, now));
            (name, bucket)
        });
        *buckets = kept.collect();
    }

    fn take(
        &self,
        name: &StreamName,
        now: Instant,
        bytes: u64,
        is_refused: bool,
    ) -> Result<(), DataRate> {
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bucket) = buckets.get_mut(name) else {
            return Ok(());
        };
        if bucket.take(now, bytes, is_refused) {
            Ok(())
        } else {
            Err(bucket.max)
        }
    }
}

/// Report on refused frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excess {
    name: StreamName,
    max: DataRate,
    count: u64,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Excess { name, max, count } = self;
        let name = name.as_str();
        write!(
            f,
            "{name} may bring {max} on average, and brings more: {count} frames were left out"
        )
    }
}

/// A session's share of its name's allowance.
#[derive(Debug)]
pub(super) struct Share {
    name: StreamName,
    allowances: Allowances,
    is_refusing: bool,
    /// Refused frames since the last report.
    refused_count: u64,
    reported_at: Option<Instant>,
}

impl Share {
    pub(super) fn new(name: StreamName, allowances: Allowances) -> Self {
        Share {
            name,
            allowances,
            is_refusing: false,
            refused_count: 0,
            reported_at: None,
        }
    }

    /// Returns whether the stream's name has a limit.
    pub(super) fn is_limited(&self) -> bool {
        let Allowances(buckets) = &self.allowances;
        let guard = buckets.lock().unwrap_or_else(PoisonError::into_inner);
        guard.contains_key(&self.name)
    }

    /// Admits a frame, or returns a report if one is due. Frames after a refused one cannot be
    /// decoded. They are refused until the next key frame, or until the limit is removed.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        bytes: usize,
        is_key: bool,
    ) -> Result<(), Option<Excess>> {
        let bytes = bytes as u64;
        let taken = if self.is_refusing && !is_key {
            self.allowances.take(&self.name, now, u64::MAX, true)
        } else {
            self.allowances
                .take(&self.name, now, bytes, self.is_refusing)
        };
        let Err(max) = taken else {
            self.is_refusing = false;
            return Ok(());
        };
        self.is_refusing = true;
        self.refused_count += 1;
        if self
            .reported_at
            .is_some_and(|at| now.saturating_since(at) < SILENCE)
        {
            return Err(None);
        }
        self.reported_at = Some(now);
        let count = core::mem::take(&mut self.refused_count);
        let name = self.name.clone();
        Err(Some(Excess { name, max, count }))
    }
}

#[cfg(test)]
mod tests {
    use anabranch_secure::SecretKey;

    use super::*;
    use crate::allowed::ListenCommand;

    fn list(limits: &str) -> AllowList {
        let key = SecretKey::generate().public_key();
        let allowed = format!("{key}=crew{limits}").parse().unwrap();
        AllowList::new(ListenCommand::Recv, vec![allowed], None).unwrap()
    }

    fn share(allowances: &Allowances) -> Share {
        Share::new("crew".parse().unwrap(), allowances.clone())
    }

    /// Returns the number of admitted frames in these seconds, at 25 frames per second and a key
    /// frame each second.
    fn admitted(shares: &mut [Share], seconds: core::ops::Range<u64>, bytes: usize) -> u64 {
        let mut count = 0;
        for number in seconds.start * 25..seconds.end * 25 {
            let now = Instant::from_millis(40 * number);
            for share in &mut *shares {
                count += u64::from(share.admit(now, bytes, number % 25 == 0).is_ok());
            }
        }
        count
    }

    #[test]
    fn what_exceeds_the_average_is_refused_in_whole_groups() {
        let allowances = Allowances::default();
        // The limit is 100 kB/s, and 200 kB/s arrive.
        allowances.update(&list(",max=800kbit/s"), Instant::ZERO);
        let mut shares = [share(&allowances)];
        assert!(admitted(&mut shares, 0..4, 8_000) == 100, "a burst");
        let later = admitted(&mut shares, 20..120, 8_000);
        let bytes = later * 8_000;
        assert!((8_000_000..=10_500_000).contains(&bytes), "{bytes}");
        // After a refused frame, none is admitted before a key frame.
        let mut alone = share(&allowances);
        let now = Instant::from_secs(200);
        assert!(alone.admit(now, 400_000, true).is_ok());
        assert!(alone.admit(now, 200_000, false).is_err());
        let now = Instant::from_secs(204);
        assert!(alone.admit(now, 10, false).is_err());
        assert!(alone.admit(now, 10, true).is_ok());
    }

    #[test]
    fn sessions_of_a_name_share_its_allowance_and_others_have_none() {
        let allowances = Allowances::default();
        allowances.update(&list(",max=800kbit/s"), Instant::ZERO);
        let mut two = [share(&allowances), share(&allowances)];
        let bytes = admitted(&mut two, 0..100, 4_000) * 4_000;
        assert!(bytes <= 100 * 100_000 + 500_000, "{bytes}");
        let mut other = [Share::new("roof".parse().unwrap(), allowances.clone())];
        assert_eq!(admitted(&mut other, 0..10, 1 << 20), 250);
        // A limit that is removed or raised applies at once.
        allowances.update(&list(""), Instant::from_secs(100));
        assert_eq!(admitted(&mut two, 100..110, 1 << 20), 500);
    }

    #[test]
    fn excess_is_reported_every_ten_seconds() {
        let allowances = Allowances::default();
        allowances.update(&list(",max=8kbit/s"), Instant::ZERO);
        let mut share = share(&allowances);
        let reported: Vec<_> = (0..500)
            .filter_map(|number| {
                let now = Instant::from_millis(40 * number);
                share.admit(now, 10_000, true).err().flatten()
            })
            .map(|excess| excess.count)
            .collect();
        assert_eq!(reported, [1, 250]);
    }
}
