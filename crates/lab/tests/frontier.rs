//! The frontier of controllers, from runs to table, JSON and picture.

use anabranch_lab::compare::Column;
use anabranch_lab::frontier::{
    Family, Frontier, frontier, frontier_json, frontier_svg, frontier_table,
};
use anabranch_lab::{Point, Scenario};

const ALONE: &str = r#"
duration = "12 s"
links.there = { rate = "2 Mbit/s", delay = "20 ms", queue = "1 s" }
links.back = { delay = "20 ms" }
routes.only = { forward = ["there"], reverse = ["back"] }

[flow-defaults]
paths = ["only"]

[[flows]]
name = "camera"
source = { kind = "ideal", min = "200 kbit/s", max = "3 Mbit/s" }
"#;

const STREAM: &str = r#"
[[flows]]
name = "tcp"
kind = "bulk"
controller = "new-reno"
"#;

fn family(name: &str, text: &str, columns: &[Column]) -> Family {
    Family {
        name: name.to_owned(),
        points: vec![
            Column::scenarios(columns, |overrides| {
                Scenario::parse("a.toml", text, overrides)
            })
            .unwrap(),
        ],
    }
}

/// Returns a controller, and the same one over a longer and slower path.
fn columns() -> Vec<Column> {
    let near = Column {
        controller: Some("gcc".to_owned()),
        ..Column::default()
    };
    let far = Column {
        settings: [
            ("links.there.delay", "120 ms"),
            ("links.there.rate", "1 Mbit/s"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .to_vec(),
        ..near.clone()
    };
    vec![near, far]
}

fn found() -> Frontier {
    let columns = columns();
    let families = [
        family("alone", ALONE, &columns),
        family("beside", &format!("{ALONE}{STREAM}"), &columns),
    ];
    frontier(&families, &columns, 2, 0, &|_| ()).unwrap()
}

#[test]
fn a_longer_and_slower_path_is_dominated_and_streams_have_a_share() {
    let found = found();
    let [alone, beside] = &found.points[..] else {
        panic!("{found:?}");
    };
    let (near, far) = (&alone.cells[0], &alone.cells[1]);
    assert!(
        near.is_on_frontier && near.is_on_packet_frontier,
        "{near:?}"
    );
    assert!(!far.is_on_frontier && !far.is_on_packet_frontier, "{far:?}");
    assert!(
        far.frame_delay_ms() > near.frame_delay_ms() + 90.0,
        "{far:?}"
    );
    assert!(
        near.goodput_ratio == 1.0 && far.goodput_ratio < 1.0,
        "{far:?}"
    );
    assert!(near.utilisation.unwrap() > 0.1 && near.loss.is_some());
    assert_eq!((near.jain, near.share_beside_streams), (None, None));
    let beside = &beside.cells[0];
    let share = beside.share_beside_streams.unwrap();
    assert!(
        share > 0.0 && share < 1.0 && beside.jain.is_some(),
        "{share}"
    );
    let standing = &found.standings()[1];
    assert_eq!(
        standing.label,
        "gcc + links.there.delay=120 ms + links.there.rate=1 Mbit/s"
    );
    assert!(
        standing.on_frontier < 2 && standing.point_count == 2,
        "{standing:?}"
    );
}

#[test]
fn the_frontier_is_written_as_text_json_and_a_panel_for_each_family() {
    let found = found();
    let table = frontier_table(&found);
    for text in ["\nalone\n", "beside TCP %", "on frontier", "2/2"] {
        assert!(table.contains(text), "{text}\n{table}");
    }
    let value: serde_json::Value = serde_json::from_str(&frontier_json(&found)).unwrap();
    assert_eq!(value["schema"], "anabranch-frontier/1");
    assert_eq!(value["points"][1]["family"], "beside");
    assert_eq!(value["points"][0]["cells"][1]["is_on_frontier"], false);
    assert_eq!(value["controllers"][0]["controller"], "gcc");
    let svg = frontier_svg(&found);
    for title in ["alone: 1 point", "beside: 1 point"] {
        assert!(svg.contains(title), "{title}");
    }
    // A disc for each controller's frames, and one in the legend; a ring for its packets.
    assert_eq!(svg.matches("r=\"5\"").count(), 2 * 2 * 2);
    assert_eq!(svg.matches("r=\"4\"").count(), 2 * 2);
}

#[test]
fn every_point_of_a_sweep_is_a_point_of_the_frontier() {
    let names = ["fixed".to_owned()];
    let columns = Column::product(&names, &[]);
    let text = format!("{ALONE}\n[sweep]\n\"links.there.queue\" = [\"100 ms\", \"1 s\"]\n")
        .replace("12 s", "2 s");
    let points = Column::points(&columns, |overrides| {
        Point::parse("a.toml", &text, overrides)
    });
    let family = Family {
        name: "queues".to_owned(),
        points: points.unwrap(),
    };
    let found = frontier(&[family], &columns, 1, 1, &|_| ()).unwrap();
    assert_eq!(found.points.len(), 2);
    // A controller alone has the best goodput, and nobody dominates it.
    assert!(
        found
            .points
            .iter()
            .all(|point| point.cells[0].is_on_frontier)
    );
}
