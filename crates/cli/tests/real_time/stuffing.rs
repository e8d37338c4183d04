//! Tests of streams of constant bitrate: null packets are not sent, and are in the output.
//!
//! Needs a clock: real programs exchange packets over sockets.

use crate::bed::{Bed, UNHURRIED, transport_stream};

/// Returns the film with `count` null packets behind every eighth packet.
fn stuffed(film: &[u8], count: usize) -> Vec<u8> {
    let null = [&[0x47, 0x1f, 0xff, 0x10][..], &[0xff; 184]].concat();
    let pieces = film.chunks(8 * 188);
    pieces
        .flat_map(|piece| [piece, &null.repeat(count)].concat())
        .collect()
}

#[test]
fn null_packets_are_not_sent_and_the_output_has_the_inputs_bytes() {
    let bed = Bed::new();
    let film = bed.text("film.ts");
    let input = stuffed(&transport_stream(50), 3);
    std::fs::write(&film, &input).unwrap();
    for (options, is_whole) in [(UNHURRIED, true), (["--latency", "min"], false)] {
        let output = bed.text("received.ts");
        let (receiver, to) = bed.recv(&bed.sender_public, &output, &options);
        let said = bed.send(&to, &film, &[]).finish_well();
        assert!(said.contains("% of the input) were not sent"), "{said}");
        let path = said.split("path 0").last().unwrap();
        let sent: f64 = path
            .split_once("): ")
            .unwrap()
            .1
            .split(" kB")
            .next()
            .unwrap()
            .parse()
            .unwrap();
        assert!(sent * 1_000.0 < input.len() as f64 * 0.9, "{said}");
        let said = receiver.finish_well();
        let received = std::fs::read(&output).unwrap();
        assert_eq!(
            received == input,
            is_whole,
            "{} bytes of {}",
            received.len(),
            input.len()
        );
        assert_eq!(
            said.contains("null packets inserted again"),
            is_whole,
            "{said}"
        );
        let null_count = received
            .chunks(188)
            .filter(|packet| packet.starts_with(&[0x47, 0x1f, 0xff]))
            .count();
        assert_eq!(null_count > 0, is_whole, "{null_count}");
    }
}
