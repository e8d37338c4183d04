//! Frames of a few bytes are read as they were written, and no other bytes as they.

use super::*;

/// Returns the frames of an untracked datagram that begins with these bytes.
fn frames(bytes: &[u8]) -> Vec<Result<WireFrame<'_>, Malformed>> {
    let mut frames = Frames { rest: bytes };
    let mut report = FeedbackReport::default();
    core::iter::from_fn(|| frames.next(&mut report)).collect()
}

/// Asserts that two of these frames in a row are decoded as `meant`, and that a part of one is
/// malformed.
fn assert_written(write: impl Fn(&mut Vec<u8>), meant: WireFrame<'_>) {
    let mut bytes = Vec::new();
    write(&mut bytes);
    let length = bytes.len();
    for cut in 1..length {
        assert_eq!(
            frames(&bytes[..cut]),
            [Err(Malformed)],
            "{cut} of {meant:?}"
        );
    }
    write(&mut bytes);
    assert_eq!(bytes.len(), 2 * length);
    assert_eq!(frames(&bytes), [Ok(meant), Ok(meant)]);
}

#[test]
fn challenges_answers_and_the_end() {
    let token = 0x0123_4567_89ab_cdef;
    assert_written(
        |out| write_path_challenge(token, out),
        WireFrame::PathChallenge(token),
    );
    assert_written(
        |out| write_path_response(token, out),
        WireFrame::PathResponse(token),
    );
    assert_written(write_close, WireFrame::Close);
    for is_suspect in [false, true] {
        let path = PathId(7);
        let meant = WireFrame::PathStatus { path, is_suspect };
        assert_written(|out| write_path_status(path, is_suspect, out), meant);
    }
    let sent_at = Instant::from_micros(0x1_0203_0405);
    assert_written(
        |out| write_send_time(sent_at, out),
        WireFrame::SendTime(0x0203_0405),
    );
    let (first, count) = (FrameId(70_000), 300);
    let meant = WireFrame::FramesGivenUp { first, count };
    assert_written(|out| write_frames_given_up(first, count, out), meant);
}

#[test]
fn schedules_with_all_their_parts() {
    let ms = Duration::from_millis;
    let holes = [0, 1, 3].map(|after_packets| {
        (after_packets > 0).then_some(HoleReports {
            after_packets,
            min_interval: ms(50),
        })
    });
    for (on_hole, interval) in holes.into_iter().zip([None, Some(ms(100)), None]) {
        for (is_immediate_on_ce, reports_pauses) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let schedule = FeedbackSchedule {
                every_packets: 300,
                max_delay: ms(25),
                interval,
                on_hole,
                is_immediate_on_ce,
                reports_pauses,
            };
            let meant = WireFrame::FeedbackSchedule(schedule);
            assert_written(|out| write_feedback_schedule(&schedule, out), meant);
            let mut bytes = Vec::new();
            write_feedback_schedule(&schedule, &mut bytes);
            assert!(bytes.len() <= MAX_SCHEDULE_BYTES as usize);
        }
    }
}

#[test]
fn spans_beyond_ten_seconds_are_ten_and_a_schedule_of_no_packets_is_none() {
    let schedule = FeedbackSchedule {
        max_delay: Duration::from_secs(11),
        ..FeedbackSchedule::EVERY_PACKET
    };
    let mut bytes = Vec::new();
    write_feedback_schedule(&schedule, &mut bytes);
    let [Ok(WireFrame::FeedbackSchedule(read))] = frames(&bytes)[..] else {
        panic!("no schedule");
    };
    assert_eq!(read.max_delay, Duration::from_secs(10));
    let schedule = FeedbackSchedule {
        every_packets: 0,
        ..schedule
    };
    bytes.clear();
    write_feedback_schedule(&schedule, &mut bytes);
    assert_eq!(frames(&bytes), [Err(Malformed)]);
}

#[test]
fn padding_is_zeros_to_the_end_of_the_datagram() {
    let mut bytes = vec![CLOSE];
    write_padding(40, &mut bytes);
    assert_eq!((bytes.len(), bytes[1..].iter().max()), (41, Some(&0)));
    assert_eq!(
        frames(&bytes),
        [Ok(WireFrame::Close), Ok(WireFrame::Padding)]
    );
}

#[test]
fn states_and_paths_that_cannot_be_are_malformed_with_all_that_follows() {
    let beyond = PathId::LIMIT as u8;
    for bytes in [
        [PATH_STATUS, 0, 2, CLOSE],
        [PATH_STATUS, beyond, 0, CLOSE],
        [0x3f, CLOSE, CLOSE, CLOSE],
    ] {
        assert_eq!(frames(&bytes), [Err(Malformed)], "{bytes:?}");
    }
    let last = beyond - 1;
    assert_eq!(frames(&[PATH_STATUS, last, 0, CLOSE]).len(), 2);
    assert_eq!(decode(&[]).err(), Some(Malformed));
    assert_eq!(decode(&[0x42, CLOSE]).err(), Some(Malformed));
    assert_eq!(decode(&[TRACKED, 1, 0, 0]).err(), Some(Malformed));
}

#[test]
fn a_tracked_datagram_has_the_low_32_bits_of_its_number() {
    let mut bytes = Vec::new();
    write_tracked_header(0x1_2345_6789, &mut bytes);
    assert_eq!(bytes.len(), TRACKED_HEADER_BYTES);
    let (tracking, _) = decode(&bytes).unwrap();
    assert_eq!(tracking, Tracking::Tracked(0x2345_6789));
}
