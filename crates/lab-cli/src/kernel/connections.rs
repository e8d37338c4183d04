//! Connections that use the kernel's controllers, and the state that their subflows share.

use std::fmt::Write as _;

use serde_json::Value;

use super::programs::{bpftool, output_of};

/// Map of connections in kernel/controllers.bpf.c.
const MAP: &str = "anabranch_conns";
/// Windows are packets in 2^-20, round-trip times eighths of microseconds.
const WINDOW_UNIT: f64 = 1_048_576.0;
const RTT_UNIT: f64 = 8_000.0;

/// Returns a line for each connection: windows and round-trip times of its subflows.
///
/// # Errors
/// bpftool fails, or its output has another form.
pub(super) fn lines() -> anyhow::Result<String> {
    let mut command = bpftool();
    command.args(["-j", "map", "dump", "name", MAP]);
    let dump = output_of(&mut command, "the connections cannot be read")?;
    let mut text = String::new();
    for entry in serde_json::from_slice::<Vec<Value>>(&dump)? {
        if let Some(subflows) = entry["formatted"]["value"]["subflows"].as_array() {
            text += &line(subflows);
        }
    }
    Ok(text)
}

fn line(subflows: &[Value]) -> String {
    fn number(subflow: &Value, key: &str) -> u64 {
        subflow[key].as_u64().unwrap_or_default()
    }
    let mut of_subflows = Vec::new();
    for subflow in subflows {
        if number(subflow, "id") != 0 {
            let window = number(subflow, "window") as f64 / WINDOW_UNIT;
            let rtt = number(subflow, "srtt") as f64 / RTT_UNIT;
            of_subflows.push(format!("{window:.1} packets in {rtt:.1} ms"));
        }
    }
    let mut text = String::new();
    let plural = if of_subflows.len() == 1 { "" } else { "s" };
    let _ = writeln!(
        text,
        "connection of {} subflow{plural}: {}",
        of_subflows.len(),
        of_subflows.join(", ")
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_subflows_that_exist() {
        let text = r#"[
            {"id": 7, "window": 15728640, "acked": 1, "interval": 0, "srtt": 640000},
            {"id": 0, "window": 0, "acked": 0, "interval": 0, "srtt": 0},
            {"id": 9, "window": 2097152, "acked": 1, "interval": 0, "srtt": 80000}]"#;
        let subflows: Vec<Value> = serde_json::from_str(text).unwrap();
        let expected =
            "connection of 2 subflows: 15.0 packets in 80.0 ms, 2.0 packets in 10.0 ms\n";
        assert_eq!(line(&subflows), expected);
    }
}
