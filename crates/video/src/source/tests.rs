//! The models by their names.

use super::*;

#[test]
fn every_name_builds_a_source_whose_first_frame_is_due_at_the_start_and_key_if_it_knows() {
    for name in SourceConfig::NAMES {
        let config: SourceConfig = name.parse().unwrap();
        assert_eq!(config.name(), name);
        let start = Instant::from_secs(3);
        let mut source = config.build(start, Seed(1)).unwrap();
        assert_eq!(source.next_at(), Some(start));
        let first = source.produce(start, DataRate::from_megabits_per_second(1));
        // The content of a packet is unknown.
        assert_eq!(first.importance.is_key(), name != "packets", "{name}");
        assert!(source.next_at() > Some(start));
    }
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let error = "webcam".parse::<SourceConfig>().unwrap_err().to_string();
    assert!(
        error.contains("ideal, gop, live, cbr, rfc8593, audio, packets, trace"),
        "{error}"
    );
}

#[test]
fn settings_outside_their_range_are_refused() {
    let rate = DataRate::from_megabits_per_second(1);
    let refused = [
        SourceConfig::Cbr {
            frames_per_second: 0,
            rate,
        },
        SourceConfig::Cbr {
            frames_per_second: 25,
            rate: DataRate::ZERO,
        },
        SourceConfig::Cbr {
            frames_per_second: 25,
            rate: DataRate::MAX,
        },
        SourceConfig::Ideal {
            frames_per_second: 25,
            min_rate: rate + rate,
            max_rate: rate,
        },
        SourceConfig::Gop {
            frames_per_second: 25,
            min_rate: rate,
            max_rate: rate,
            key_frame_interval: 0,
            key_frame_ratio: 5.0,
            has_key_on_loss: false,
            structure: None,
        },
        SourceConfig::Gop {
            frames_per_second: 25,
            min_rate: rate,
            max_rate: rate,
            key_frame_interval: 50,
            key_frame_ratio: f64::NAN,
            has_key_on_loss: false,
            structure: None,
        },
    ];
    for config in refused {
        assert!(config.build(Instant::ZERO, Seed(1)).is_err(), "{config:?}");
    }
}

#[test]
#[should_panic(expected = "no frame is due")]
fn a_frame_is_not_produced_before_it_is_due() {
    let mut source = "cbr"
        .parse::<SourceConfig>()
        .unwrap()
        .build(Instant::from_secs(1), Seed(1))
        .unwrap();
    source.produce(Instant::ZERO, DataRate::MAX);
}
