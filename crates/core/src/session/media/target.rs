//! What the encoder is asked for.

use anabranch_units::Instant;

use super::MediaSession;
use crate::config::SourceLimits;
use crate::media::{self, Bandwidth};
use crate::path::Path;
use crate::path_view::PathState;
use crate::session::Event;

impl MediaSession {
    /// Asks the encoder for what the paths carry now.
    pub(super) fn update_target(&mut self, now: Instant) {
        let is_saving = self.are_metered_in_reserve();
        let active = self
            .paths
            .iter()
            .filter(|path| path.state() == PathState::Active && path.control().is_usable)
            .filter(|path| !(path.is_metered() && is_saving));
        // What comes out of an only path is not measured.
        let is_alone = self.paths.len() < 2;
        let carried = |path: &Path| match is_alone {
            true => (path.control().target_rate, 0),
            false => {
                let forecast = path.forecast(now);
                (forecast.rate, forecast.backed_up_bytes)
            }
        };
        let (media, fraction) = (&self.config.media, self.content.target_fraction);
        let (bandwidth, backlog_bytes) = if self.content.scheduler.is_redundant() {
            // The others' queues are full of copies.
            let best = active.max_by_key(|path| carried(path).0);
            let backlog_bytes =
                self.content.send_buffer.waiting_bytes() + best.map_or(0, Path::queued_bytes);
            let rates = best.into_iter().map(|path| carried(path).0);
            (Bandwidth::of(media, fraction, rates), backlog_bytes)
        } else {
            let mut backlog_bytes = self.backlog_bytes();
            let rates = active.map(|path| {
                let (rate, backed_up_bytes) = carried(path);
                if backed_up_bytes > 0 {
                    let most = media::most_drained_bytes(fraction, rate);
                    backlog_bytes += backed_up_bytes.min(most);
                }
                rate
            });
            (Bandwidth::of(media, fraction, rates), backlog_bytes)
        };
        let overhead = self.note_bandwidth(bandwidth, backlog_bytes);
        let media = &self.config.media;
        let target = media::target_bitrate(media, bandwidth, backlog_bytes, overhead);
        let before = self.content.target_bitrate.bits_per_second();
        self.content.target_bitrate = target;
        // A change of a percent is not worth an encoder's attention.
        if target.bits_per_second().abs_diff(before) * 100 > before {
            match self.events.back_mut() {
                Some(Event::TargetBitrate(last)) => *last = target,
                _ => self.events.push_back(Event::TargetBitrate(target)),
            }
        }
    }

    /// Tells the controllers what a source gives that does not follow the target.
    pub(super) fn tell_source_rate(&mut self, now: Instant, frame_bytes: usize) {
        if self.config.media.source != SourceLimits::Fixed {
            return;
        }
        let rate = self.content.source_rate.on_frame(now, frame_bytes);
        let is_saving = self.are_metered_in_reserve();
        let takes_part =
            |path: &Path| path.state() == PathState::Active && !(path.is_metered() && is_saving);
        let path_count = match self.content.scheduler.is_redundant() {
            true => 1,
            false => self.paths.iter().filter(|path| takes_part(path)).count(),
        };
        let share = rate.mul_f64(1.0 / path_count.max(1) as f64);
        for path in self.paths.iter_mut().filter(|path| takes_part(path)) {
            path.on_source_rate(share);
        }
    }

    /// Whether more bandwidth than is known would be of use.
    pub(super) fn is_more_bandwidth_useful(&self) -> bool {
        match self.config.media.source {
            SourceLimits::Adaptive { max, .. } if self.content.target_bitrate < max => true,
            _ => self.is_unmetered_bandwidth_wanted(),
        }
    }
}
