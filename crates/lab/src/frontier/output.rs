//! The frontier as text and JSON.

use serde::Serialize;

use super::{Frontier, FrontierCell, FrontierPoint, Standing};
use crate::report::grid;

/// Version of the JSON form. Fields may be added under one version; none changes its meaning or is
/// removed.
pub const FRONTIER_SCHEMA: &str = "anabranch-frontier/1";

const HEADINGS: [&str; 9] = [
    "controller",
    "frames ms",
    "packets ms",
    "goodput %",
    "use %",
    "loss %",
    "Jain",
    "beside TCP %",
    "frontier",
];
/// Headings of a controller's counts and medians over all points.
const STANDING_HEADINGS: [&str; 8] = [
    "controller",
    "on frontier",
    "by packets",
    "frames ms",
    "packets ms",
    "goodput %",
    "most loss %",
    "beside TCP %",
];

/// Returns the frontier as aligned text: for each point a row for each controller, and the
/// controllers' counts and medians over all points at the end.
pub fn frontier_table(frontier: &Frontier) -> String {
    let mut text = format!(
        "{} seeds: means; 95th percentiles of the delay of all frames and of packets; goodput of \
         the best; * no other\ncontroller has less delay of frames and more goodput, p the same \
         by packets\n",
        frontier.seed_count
    );
    let mut family = "";
    for point in &frontier.points {
        if point.family != family {
            family = &point.family;
            text.push_str(&format!("\n{family}\n"));
        }
        text.push_str(&format!("\n{}\n", point.scenario));
        text.push_str(&grid(&rows(frontier, point)));
    }
    let mut rows = vec![STANDING_HEADINGS.map(str::to_owned).to_vec()];
    rows.extend(frontier.standings().iter().map(standing_row));
    text.push_str(&format!(
        "\nall points: counts, medians, and the largest loss\n{}",
        grid(&rows)
    ));
    text
}

fn rows(frontier: &Frontier, point: &FrontierPoint) -> Vec<Vec<String>> {
    let mut rows = vec![HEADINGS.map(str::to_owned).to_vec()];
    for (column, cell) in frontier.columns.iter().zip(&point.cells) {
        let frames = if cell.is_on_frontier { "*" } else { "" };
        let packets = if cell.is_on_packet_frontier { "p" } else { "" };
        rows.push(vec![
            column.label(),
            millis(cell.frame_delay_ms()),
            millis(cell.packet_delay_ms()),
            per_cent(Some(cell.goodput_ratio), 0),
            per_cent(cell.utilisation, 1),
            per_cent(cell.loss, 2),
            cell.jain
                .map_or("-".to_owned(), |jain| format!("{jain:.2}")),
            per_cent(cell.share_beside_streams, 0),
            format!("{frames}{packets}"),
        ]);
    }
    rows
}

fn standing_row(standing: &Standing) -> Vec<String> {
    let point_count = standing.point_count;
    vec![
        standing.label.clone(),
        format!("{}/{point_count}", standing.on_frontier),
        format!("{}/{point_count}", standing.on_packet_frontier),
        millis(standing.frame_delay_ms),
        millis(standing.packet_delay_ms),
        per_cent(Some(standing.goodput_ratio), 0),
        per_cent(standing.most_loss, 2),
        per_cent(standing.share_beside_streams, 0),
    ]
}

fn millis(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.0}")
    } else {
        "-".to_owned()
    }
}

fn per_cent(share: Option<f64>, digits: usize) -> String {
    share.map_or("-".to_owned(), |share| {
        format!("{:.digits$}", 100.0 * share)
    })
}

#[derive(Serialize)]
struct JsonDocument<'a> {
    schema: &'static str,
    seed_count: u64,
    points: Vec<JsonPoint<'a>>,
    controllers: Vec<JsonStanding>,
}

#[derive(Serialize)]
struct JsonPoint<'a> {
    family: &'a str,
    scenario: &'a str,
    cells: Vec<JsonCell>,
}

#[derive(Serialize)]
struct JsonCell {
    controller: String,
    frame_delay_p95_ms: Option<f64>,
    packet_delay_p95_ms: Option<f64>,
    goodput_bits_per_second: f64,
    goodput_ratio: f64,
    utilisation: Option<f64>,
    loss_ratio: Option<f64>,
    jain_index: Option<f64>,
    share_beside_streams: Option<f64>,
    is_on_frontier: bool,
    is_on_packet_frontier: bool,
}

#[derive(Serialize)]
struct JsonStanding {
    controller: String,
    point_count: usize,
    on_frontier: usize,
    on_packet_frontier: usize,
    frame_delay_p95_ms: Option<f64>,
    packet_delay_p95_ms: Option<f64>,
    goodput_ratio: f64,
    utilisation: Option<f64>,
    most_loss_ratio: Option<f64>,
    share_beside_streams: Option<f64>,
}

/// Returns the frontier as JSON, indented. Shares are 0 to 1, times in ms, rates in bit/s.
pub fn frontier_json(frontier: &Frontier) -> String {
    let points = frontier.points.iter().map(|point| JsonPoint {
        family: &point.family,
        scenario: &point.scenario,
        cells: json_cells(frontier, point),
    });
    let document = JsonDocument {
        schema: FRONTIER_SCHEMA,
        seed_count: frontier.seed_count,
        points: points.collect(),
        controllers: frontier
            .standings()
            .into_iter()
            .map(json_standing)
            .collect(),
    };
    let mut text = serde_json::to_string_pretty(&document).expect("keys are texts");
    text.push('\n');
    text
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn json_cells(frontier: &Frontier, point: &FrontierPoint) -> Vec<JsonCell> {
    let cells = frontier.columns.iter().zip(&point.cells);
    cells
        .map(|(column, cell)| json_cell(column.label(), cell))
        .collect()
}

fn json_cell(controller: String, cell: &FrontierCell) -> JsonCell {
    JsonCell {
        controller,
        frame_delay_p95_ms: finite(cell.frame_delay_ms()),
        packet_delay_p95_ms: finite(cell.packet_delay_ms()),
        goodput_bits_per_second: cell.goodput_bits_per_second(),
        goodput_ratio: cell.goodput_ratio,
        utilisation: cell.utilisation,
        loss_ratio: cell.loss,
        jain_index: cell.jain,
        share_beside_streams: cell.share_beside_streams,
        is_on_frontier: cell.is_on_frontier,
        is_on_packet_frontier: cell.is_on_packet_frontier,
    }
}

fn json_standing(standing: Standing) -> JsonStanding {
    JsonStanding {
        controller: standing.label,
        point_count: standing.point_count,
        on_frontier: standing.on_frontier,
        on_packet_frontier: standing.on_packet_frontier,
        frame_delay_p95_ms: finite(standing.frame_delay_ms),
        packet_delay_p95_ms: finite(standing.packet_delay_ms),
        goodput_ratio: standing.goodput_ratio,
        utilisation: standing.utilisation,
        most_loss_ratio: standing.most_loss,
        share_beside_streams: standing.share_beside_streams,
    }
}
