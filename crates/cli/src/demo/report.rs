//! The demo's final report: the tables of both ends, and the promises with the measured values.

use core::fmt::Write;

use anabranch_core::MediaConfig;
use anabranch_net::Snapshot;
use anabranch_video::fidelity::{Fidelity, Spread};

use super::judge::{Promise, Verdict};
use super::network::{FAILING, LINKS, OUTAGE_AT, RETURN_AT, names};
use super::recording::{Recording, displayable, on_time};
use crate::end::End;
use crate::summary::table;

/// Returns the tables and the promises.
pub(super) fn report(recording: &Recording, promises: &[Promise]) -> String {
    let ends = [
        ("sender", End::Sender, &recording.sender),
        ("receiver", End::Receiver, &recording.receiver),
    ]
    .map(|(name, end, snapshot)| {
        // Both keys are of this run alone.
        let snapshot = Snapshot {
            peer: None,
            ..snapshot.clone()
        };
        format!("\n{name}: {}\n", table(end, &snapshot, &names(), None))
    });
    let mut text = ends.concat();
    // Writing to a string does not fail.
    let _ = write_frames(&mut text, recording);
    let _ = write_fidelity(&mut text, recording);
    let _ = write_events(&mut text, recording);
    let _ = write_promises(&mut text, recording, promises);
    text
}

/// Returns the last sentence about a run that broke no promise.
pub(super) fn conclusion(recording: &Recording) -> String {
    let statistics = recording.frame_statistics(recording.whole());
    let frames = format!(
        "{} of {} frames on time, within {} of their capture.",
        on_time(&statistics),
        statistics.captured,
        recording.deadline
    );
    if recording.reaches(RETURN_AT) {
        let outage = RETURN_AT - OUTAGE_AT;
        let link = LINKS[FAILING].name;
        format!("{link} failed for {outage}, and the picture stayed: {frames}")
    } else {
        frames
    }
}

fn write_frames(text: &mut String, recording: &Recording) -> core::fmt::Result {
    let statistics = recording.frame_statistics(recording.whole());
    let displayable = displayable(&statistics);
    writeln!(
        text,
        "\nframes  {} taken, {} there, {displayable:.0} displayable; {:.2} Mbit/s of video",
        statistics.captured,
        statistics.complete,
        recording
            .video_rate(recording.started_at, recording.ended_at)
            .megabits_per_second(),
    )?;
    let Some(delay) = statistics.delay_ms else {
        return writeln!(text, "delay   –");
    };
    writeln!(
        text,
        "delay   mean {:.0} ms, median {:.0} ms, 95 % {:.0} ms, 99 % {:.0} ms, worst {:.0} ms",
        delay.mean, delay.p50, delay.p95, delay.p99, delay.max,
    )
}

/// Writes mean, 5th percentile and minimum of the displayed pictures' similarity to the camera's.
fn write_fidelity(text: &mut String, recording: &Recording) -> core::fmt::Result {
    let frames = recording.frames.iter();
    let shown: Vec<Fidelity> = frames.filter_map(|frame| frame.fidelity).collect();
    let psnr = Spread::of(shown.iter().map(|fidelity| fidelity.psnr));
    let ssim = Spread::of(shown.iter().map(|fidelity| fidelity.ssim));
    let (Some(psnr), Some(ssim)) = (psnr, ssim) else {
        return Ok(());
    };
    writeln!(
        text,
        "PSNR    mean {:.1} dB, 5 % below {:.1} dB, least {:.1} dB (luma; a frame that is missing \
         counts as the one that stands still in its place)",
        psnr.mean, psnr.percentile_5, psnr.least
    )?;
    writeln!(
        text,
        "SSIM    mean {:.3}, 5 % below {:.3}, least {:.3}",
        ssim.mean, ssim.percentile_5, ssim.least
    )
}

fn write_events(text: &mut String, recording: &Recording) -> core::fmt::Result {
    writeln!(text, "\nevents")?;
    for view_event in &recording.view_events {
        writeln!(
            text,
            "  {:6.2} s  {}",
            view_event.at.as_secs_f64(),
            view_event.text
        )?;
    }
    Ok(())
}

fn write_promises(
    text: &mut String,
    recording: &Recording,
    promises: &[Promise],
) -> core::fmt::Result {
    writeln!(text, "\npromises")?;
    for promise in promises {
        let Promise {
            text: what,
            measured,
            verdict,
        } = promise;
        writeln!(text, "  {:<11}{what}: {measured}", verdict.name())?;
    }
    let is_broken = promises
        .iter()
        .any(|promise| promise.verdict == Verdict::Broken);
    if is_broken && recording.deadline < MediaConfig::default().deadline {
        writeln!(
            text,
            "{} leave little time to notice a loss or a dead link and to send again: \
             --compare-fec shows\nwhat repairs give that are sent along.",
            recording.deadline
        )?;
    }
    if recording.slow_seconds > 0 {
        writeln!(
            text,
            "The machine was too slow to keep time in {} s of the run: the results \
             describe\nit more than the transport. Try again when it has less to do.",
            recording.slow_seconds
        )?;
    }
    if !recording.reaches(OUTAGE_AT) {
        writeln!(
            text,
            "The run was too short for the outage from 10 s to 15 s: it shows nothing of that."
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::judge::judge;
    use super::super::recording::{ViewEvent, testing::flawless};
    use super::*;
    use anabranch_units::{Duration, Instant};

    #[test]
    fn the_report_holds_paths_frames_and_every_promise() {
        let mut recording = flawless();
        recording.frames[0].delivered_at = None;
        recording.frames[1].fidelity = Some(Fidelity {
            psnr: 12.0,
            ssim: 0.3,
        });
        recording.view_events.push(ViewEvent {
            at: Instant::from_millis(10_120),
            text: "Wi-Fi suspect".to_owned(),
        });
        recording.slow_seconds = 3;
        let promises = judge(&recording);
        let text = report(&recording, &promises);
        for part in [
            "sender: session of",
            "receiver: session of",
            "747 taken, 746 there",
            "median 70 ms",
            "PSNR    mean 38.0 dB, 5 % below 38.0 dB, least 12.0 dB",
            "SSIM    mean 0.949, 5 % below 0.950, least 0.300",
            "10.12 s  Wi-Fi suspect",
            "too slow to keep time in 3 s",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        for promise in &promises {
            let line = format!("{}: {}", promise.text, promise.measured);
            assert!(text.contains(&line), "{line:?} in\n{text}");
        }
        assert!(!text.contains("too short"), "{text}");
    }

    #[test]
    fn the_last_sentence_counts_frames_on_time_and_names_the_outage() {
        let mut recording = flawless();
        recording.frames[5].delivered_at = None;
        recording.frames[5].importance = anabranch_units::Importance::Disposable;
        assert_eq!(
            conclusion(&recording),
            "Wi-Fi failed for 5 s, and the picture stayed: 746 of 747 frames on time, within \
             500 ms of their capture."
        );
        recording.ended_at = Instant::from_secs(14);
        let sentence = conclusion(&recording);
        assert!(!sentence.contains("Wi-Fi"), "{sentence}");
    }

    #[test]
    fn a_short_deadline_is_given_as_the_reason_where_it_may_be_one() {
        let mut recording = flawless();
        let hint = "leave little time";
        recording.deadline = Duration::from_millis(60);
        assert!(report(&recording, &judge(&recording)).contains(hint));
        recording.deadline = Duration::from_millis(80);
        assert!(!report(&recording, &judge(&recording)).contains(hint));
        recording.deadline = Duration::from_millis(500);
        recording.frames[0].check = Some(super::super::ledger::Check::Wrong);
        assert!(!report(&recording, &judge(&recording)).contains(hint));
    }

    #[test]
    fn a_run_without_outage_and_frames_says_so() {
        let mut recording = flawless();
        recording.ended_at = Instant::from_secs(6);
        recording.frames.clear();
        recording.samples.clear();
        let text = report(&recording, &judge(&recording));
        assert!(text.contains("too short for the outage"), "{text}");
        assert!(text.contains("BROKEN"), "{text}");
    }
}
