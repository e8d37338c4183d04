"""Traces of links: readers, their errors, conservation of bytes, and use in scenarios."""

from __future__ import annotations

import itertools
import math
import pickle
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import anabranch
import numpy as np
import pytest
from anabranch import DelayTrace, Scenario, Trace, TraceError, TraceWarning

PACKET = 1504.0
CELLULAR = Path(__file__).parents[2] / "scenarios/traces/cellular.trace"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def saw_tooth(folder: Path) -> Path:
    """Write 60 intervals of a second with 10 to 69 Mbit/s, in the form of a 5G data set."""
    rows = [f"2020.01.01_10.{s // 60:02}.{s % 60:02},x,{1000 * (10 + s)}" for s in range(60)]
    return written(folder, "5g.csv", "Timestamp,State,DL_bitrate\n" + "\n".join(rows) + "\n")


def read_5g(path: Path) -> Trace:
    return Trace.from_throughput(
        path, time="Timestamp", rate="DL_bitrate", unit="kbit/s", time_format="%Y.%m.%d_%H.%M.%S"
    )


def with_trace(path: Path) -> Scenario:
    scenario = Scenario(
        {
            "duration_s": 4,
            "links": {"up": {"delay_ms": 20}, "down": {"delay_ms": 20}},
            "routes": {"only": {"forward": ["up"], "reverse": ["down"]}},
            "flows": [{"paths": ["only"], "kind": "bulk"}],
        }
    )
    return scenario.with_({"links.up.trace": str(path), "links.up.queue_ms": 100})


def test_a_mahimahi_file_survives_reading_and_writing(tmp_path: Path) -> None:
    trace = Trace.from_mahimahi(CELLULAR)
    assert trace.duration_s == 19.999
    assert trace.to_mahimahi(tmp_path / "again").read_text() == CELLULAR.read_text()


def test_rates_of_a_mahimahi_file(tmp_path: Path) -> None:
    trace = Trace.from_mahimahi(written(tmp_path, "a", "0\n100\n101\n200\n"))
    # The bin of an opportunity is the one that it ends, and that at 0 is in the first.
    assert (trace.rate(100)["rate_bps"] * 0.1 / 8 / PACKET).round(6).tolist() == [2, 2]
    assert trace.rate(150)["time_s"].tolist() == [0.15, 0.2]


def test_throughput_per_interval_of_a_5g_data_set(tmp_path: Path) -> None:
    trace = read_5g(saw_tooth(tmp_path))
    assert trace.duration_s == 60.0
    assert trace.total_bytes == pytest.approx(sum(10 + s for s in range(60)) * 1e6 / 8)
    assert trace.rate(1000)["rate_bps"][:3].tolist() == pytest.approx([10e6, 11e6, 12e6])


@pytest.mark.parametrize("mean_bps", [1e5, 3.3e6, 2.4e8])
def test_bytes_are_conserved_to_a_packet_at_any_time(tmp_path: Path, mean_bps: float) -> None:
    trace = read_5g(saw_tooth(tmp_path)).scale(mean_bps=mean_bps)
    assert trace.mean_bps == pytest.approx(mean_bps)
    times = np.loadtxt(trace.to_mahimahi(tmp_path / "x"), dtype=np.int64, ndmin=1)
    assert times[-1] == 60_000 and np.all(np.diff(times) >= 0)
    assert abs(len(times) * PACKET - trace.total_bytes) <= PACKET
    at = np.arange(1.0, 60_000.0, 7.0)
    written_bytes = PACKET * np.searchsorted(times, at, side="right")
    assert np.all(np.abs(written_bytes - trace._carried(at)) <= PACKET)


def test_windows_carry_what_their_parts_carry(tmp_path: Path) -> None:
    for trace in (read_5g(saw_tooth(tmp_path)), Trace.from_mahimahi(CELLULAR)):
        bounds = [0.0, 3.3, 7.0, 11.75, trace.duration_s]
        parts = [trace.window(a, b) for a, b in itertools.pairwise(bounds)]
        assert sum(part.total_bytes for part in parts) == pytest.approx(trace.total_bytes)
        assert parts[1].duration_s == pytest.approx(3.7)
        whole = trace.rate(100)["rate_bps"]
        assert parts[2].rate(100)["rate_bps"][:40] == pytest.approx(whole[70:110])
        for a, b in ((5, 5), (-1, 3), (0, 99), (math.nan, 2)):
            with pytest.raises(ValueError, match="window"):
                trace.window(a, b)


def test_a_trace_that_ends_in_silence_keeps_its_period(tmp_path: Path) -> None:
    trace = Trace.from_throughput({"time": [0, 1, 2], "mbps": [12.032, 0, 0]})
    times = trace.to_mahimahi(tmp_path / "x").read_text().split()
    assert len(times) == 1000 and times[-2:] == ["999", "3000"]


def test_pantheon_deliveries_and_capacity(tmp_path: Path) -> None:
    text = "# init timestamp: 5\n5 + 1500 1\n25 - 1500 20 1\n26 - 500 20 2\n40 - 1500 20 1\n"
    log = written(tmp_path, "bbr_datalink_run1.log", text)
    trace = Trace.from_pantheon(tmp_path)
    assert (trace.total_bytes, trace.duration_s) == (3500, 0.035)
    assert Trace.from_pantheon(log, flow=1).total_bytes == 3000
    written(tmp_path, "cubic_datalink_run1.log", text + "60 # 1504\n")
    assert Trace.from_pantheon(tmp_path, scheme="cubic").total_bytes == 1504
    with pytest.raises(TraceError, match="schemes are bbr, cubic"):
        Trace.from_pantheon(tmp_path)


def test_flows_of_ns3_that_overlap_are_added(tmp_path: Path) -> None:
    flow = '<Flow flowId="{}" timeFirstRxPacket="+{}ns" timeLastRxPacket="+{}ns" rxBytes="{}"/>'
    flows = [(1, "0", "2e+09", 250_000), (2, "1e+09", "3e+09", 500_000), (3, "0", "0", 0)]
    text = "".join(flow.format(*each) for each in flows)
    other = '<Ipv4FlowClassifier><Flow flowId="1" protocol="6"/></Ipv4FlowClassifier>'
    text = f'<?xml version="1.0" ?><FlowMonitor><FlowStats>{text}</FlowStats>{other}</FlowMonitor>'
    path = written(tmp_path, "flows.xml", text)
    trace = Trace.from_flow_monitor(path)
    assert trace.rate(1000)["rate_bps"].tolist() == pytest.approx([1e6, 3e6, 2e6])
    with pytest.warns(TraceWarning, match="longer than 1 s, up to 2 s: a bin"):
        assert Trace.from_flow_monitor(path, flow=2).mean_bps == pytest.approx(2e6)


def test_latency_of_starlink_becomes_a_schedule(tmp_path: Path) -> None:
    rows = [f"{1.7e9 + i / 10:.1f},{'' if i % 10 == 3 else 40 + i // 10}" for i in range(40)]
    path = written(tmp_path, "ping.csv", "timestamp,rtt\n" + "\n".join(rows) + "\n")
    trace = DelayTrace.from_latency(path)
    assert trace.loss == pytest.approx(0.1) and trace.mean_ms == pytest.approx(41.5)
    schedule = trace.to_schedule()
    assert [entry["delay_ms"] for entry in schedule] == pytest.approx([20, 20.5, 21, 21.5])
    assert trace.window(1, 2).to_schedule(round_trip=False)[0]["delay_ms"] == pytest.approx(41)
    scenario = anabranch.testing.small_scenario()
    later = scenario.with_({"links.up.delay-schedule": [{"at_s": 1.0, "delay_ms": 300.0}]})
    same = scenario.with_({"links.up.delay-schedule": schedule})
    delays = [
        anabranch.run(s, 1, progress=False).runs["delay_mean_ms"][0]
        for s in (scenario, same, later)
    ]
    assert delays[0] + 0.2 < delays[1] < delays[2] - 100


def test_losses_of_irtt_in_lens(tmp_path: Path) -> None:
    text = """timestamp,rtt,uplink,downlink
1705744800000000000,0,0,-1
1705744800010000000,120.5,72.5,48.0
1705744800020000000,-1,0,0
1705744801000000000,100.5,52.5,48.0
"""
    path = written(tmp_path, "irtt.csv", text)
    trace = DelayTrace.from_latency(path, time_unit="ns", lost=(-1, 0))
    assert (trace.loss, trace.mean_ms) == (0.5, 110.5)
    assert trace.duration_s == pytest.approx(1.0, abs=1e-6)


def test_a_scenario_carries_what_the_trace_carries(tmp_path: Path) -> None:
    trace = read_5g(saw_tooth(tmp_path)).window(0, 4).scale(mean_bps=6e6)
    path = trace.to_mahimahi(tmp_path / "up.trace")
    result = anabranch.run(with_trace(path), 1, progress=False)
    assert result.links.where(link="up")["link_throughput_bps"][0] == pytest.approx(6e6, rel=0.1)


@pytest.mark.parametrize(
    ("times", "rates", "expected"),
    [
        ([0, 1, 2, 9, 10], [1, 1, 1, 1, 1], "a gap of 6 s at 2 s"),
        ([0, 1, 2, 3], [1, None, "-", 1], "2 gaps, the longest of 1 s at 1 s"),
        ([0, 2, 4], [1, 1, 1], "longer than 1 s, up to 2 s: 3 bins"),
    ],
)
def test_gaps_and_long_bins_are_warned_of(
    times: list[Any], rates: list[Any], expected: str
) -> None:
    with pytest.warns(TraceWarning, match=expected) as caught:
        Trace.from_throughput({"time": times, "mbps": rates})
    assert Path(caught[0].filename) == Path(__file__)


def test_a_gap_carries_nothing() -> None:
    with pytest.warns(TraceWarning, match="gap"):
        trace = Trace.from_throughput({"time": [0, 1, 2, 9, 10], "mbps": [8, 8, 8, 8, None]})
    rates = trace.rate(1000)["rate_bps"] / 1e6
    assert rates.tolist() == pytest.approx([8, 8, 8, 0, 0, 0, 0, 0, 0, 8, 0])


def test_a_silent_second_of_mahimahi_is_warned_of(tmp_path: Path) -> None:
    with pytest.warns(TraceWarning, match="a gap of 4.999 s at 1 s"):
        Trace.from_mahimahi(written(tmp_path, "x", "1\n1000\n5999\n"))


def test_good_traces_warn_of_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_5g(saw_tooth(tmp_path))
        Trace.from_mahimahi(CELLULAR)


def test_other_forms_of_throughput() -> None:
    seconds = Trace.from_throughput({"down": [8, 16]}, time=None, rate="down", interval_ms=500)
    assert (seconds.duration_s, seconds.total_bytes) == (1.0, 1_500_000)
    ends = Trace.from_throughput({"time": [1, 2], "mbps": [8, 16]}, stamp="end")
    assert (ends.duration_s, ends.total_bytes) == (2.0, 3_000_000)
    twice = {"time": [0, 0, 1], "mbps": [8, 16, 24]}
    with pytest.raises(TraceError, match="row 2: the time '0' is there twice"):
        Trace.from_throughput(twice)
    assert Trace.from_throughput(twice, repeated="mean").total_bytes == 4_500_000
    table = anabranch.Table.from_columns({"time": [0.0, 1.0], "mbps": [8.0, 8.0]})
    assert Trace.from_throughput(table).total_bytes == 2_000_000
    for wrong in ({"unit": "Mbps"}, {"stamp": "mid"}, {"time_unit": "min"}, {"interval_ms": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Trace.from_throughput(table, **wrong)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("1\nnan\n", 2, "'nan' is no time"),
        ("1\n-5\n", 2, "'-5' is no time"),
        ("7\n6\n", 2, "6 ms comes after 7 ms"),
        ("1\n99999999999999\n", 2, "more than 49.7 days"),
        ("1\n" + "9" * 70_000, 2, "longer than 65536 bytes"),
        ("0\n0\n", None, "no time above 0 ms"),
        ("", None, "no time above 0 ms"),
    ],
)
def test_hostile_mahimahi_files(tmp_path: Path, text: str, line: int | None, reason: str) -> None:
    path = written(tmp_path, "x.trace", text)
    with pytest.raises(TraceError, match=reason) as caught:
        Trace.from_mahimahi(path)
    assert (caught.value.file, caught.value.line) == (str(path), line)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.line) == (str(caught.value), line)


@pytest.mark.parametrize(
    ("rows", "line", "reason"),
    [
        ("0,nan", None, "a single row has no length"),
        ("0,inf", 2, "no finite number"),
        ("0,1_0", 2, "no finite number"),
        ("0,-1", 2, "a rate of -1 Mbit/s is negative"),
        ("0,1e9", 2, "above 10 Tbit/s"),
        ("nan,1", 2, "the row has no time: remove such rows"),
        ("-3,1", 2, "the time '-3' is negative"),
        ("soon,1", 2, "'soon' is no time"),
        ("5,1\n4,1", 3, "'4' is before the row above"),
        ("0,1\n1e300,1", 3, "49.7 days"),
        ("0", 2, "only 1 cells"),
        ('0,"1', 2, "unexpected end of data"),
        ("0,1", None, "a single row has no length"),
        ("0,0\n1,0", None, "carries no bytes"),
        ("", None, "there are no rows"),
    ],
)
def test_hostile_csv_files(tmp_path: Path, rows: str, line: int | None, reason: str) -> None:
    path = written(tmp_path, "x.csv", f"time,mbps\n{rows}\n")
    with pytest.raises(TraceError, match=reason) as caught:
        Trace.from_throughput(path)
    assert caught.value.line == line


def test_a_missing_column_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = written(tmp_path, "x.csv", "t,DL\n0,1\n")
    with pytest.raises(TraceError, match="no column is called 'time'; there are t, DL"):
        Trace.from_throughput(path)
    with pytest.raises(TraceError, match="no column is called 'mbps'"):
        Trace.from_throughput({"time": [0]})
    path.write_bytes(b"time,mbps\n0,\xff\n")
    with pytest.raises(TraceError, match="no UTF-8 text") as caught:
        Trace.from_throughput(path)
    assert caught.value.line == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 ? 5\n", "no event of a tunnel log"),
        ("nan - 5 5 1\n", "no finite number"),
        ("1 - -5 5 1\n", "no size of a packet"),
        ("1 - 99999999999 5 1\n", "no size of a packet"),
        ("9 - 5 5 1\n8 - 5 5 1\n", "before the first event"),
        ("0 + 5\n9 - 5 5 1\n8 - 5 5 1\n", "8 ms comes after 9 ms"),
        ("1 - 5 5 1\n", "no deliveries over a time above 0"),
    ],
)
def test_hostile_tunnel_logs(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(TraceError, match=reason):
        Trace.from_pantheon(written(tmp_path, "x.log", text))


@pytest.mark.parametrize(
    ("flow", "reason"),
    [
        ('rxBytes="nan"', "no count of bytes"),
        ('rxBytes="-5"', "no count of bytes"),
        ('rxBytes="5" timeFirstRxPacket="+nans"', "no time such as"),
        ('rxBytes="5" timeFirstRxPacket="+9s" timeLastRxPacket="+8s"', "before timeFirstRxPacket"),
        ('rxBytes="5" timeFirstRxPacket="+9e99s"', "more than 49.7 days"),
        ('rxBytes="999999999999999" timeFirstRxPacket="+0s" timeLastRxPacket="+1s"', "10 Tbit/s"),
        ('rxBytes="0"', "no flow received anything"),
        ('rxBytes="5" <', "not well-formed"),
    ],
)
def test_hostile_flow_monitors(tmp_path: Path, flow: str, reason: str) -> None:
    text = f"<FlowMonitor><FlowStats>\n<Flow {flow}/></FlowStats></FlowMonitor>"
    with pytest.raises(TraceError, match=reason) as caught:
        Trace.from_flow_monitor(written(tmp_path, "x.xml", text))
    assert caught.value.line in (2, None)


def test_xml_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE x [<!ENTITY a "aaaa">]><FlowMonitor>&a;</FlowMonitor>'
    deep = "<FlowMonitor>" + "<a>" * 100
    long = '<FlowMonitor a="' + "a" * 4_000_000
    for text, reason in ((bomb, "document type"), (deep, "64 deep"), (long, "element is too long")):
        with pytest.raises(TraceError, match=reason):
            Trace.from_flow_monitor(written(tmp_path, "x.xml", text))


def test_a_file_without_line_ends_takes_little_memory(tmp_path: Path) -> None:
    path = written(tmp_path, "x", "1" * 4_000_000)
    for read in (Trace.from_mahimahi, Trace.from_throughput, Trace.from_pantheon):
        tracemalloc.start()
        with pytest.raises(TraceError, match="longer than 65536 bytes"):
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1_000_000


def test_logs_of_mm_link_have_opportunities_and_drops(tmp_path: Path) -> None:
    log = "# mahimahi mm-link (uplink) [up.trace] > up.log\n# base timestamp: 5\n"
    log += "10 + 1504\n10 # 1504\n12 d 2 3008\n15 - 1504 5\n20 # 1504\n"
    trace = Trace.from_pantheon(written(tmp_path, "up.log", log))
    assert trace.total_bytes == 2 * PACKET and trace.duration_s == 0.01


def test_too_many_rows_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch._trace_files.MAX_ROWS", 100)
    path = written(tmp_path, "x", "".join(f"{i}\n" for i in range(200)))
    with pytest.raises(TraceError, match="more than 100 lines") as caught:
        Trace.from_mahimahi(path)
    assert caught.value.line == 101


def test_nothing_is_overwritten_or_left_behind(tmp_path: Path) -> None:
    trace = Trace.from_mahimahi(CELLULAR)
    path = trace.to_mahimahi(tmp_path / "x")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        trace.to_mahimahi(path)
    half = trace.window(0, 10)
    assert half.to_mahimahi(path, overwrite=True).read_text().splitlines()[-1] == "10000"
    with pytest.raises(ValueError, match="lines are more than"):
        trace.scale(mean_bps=1e13).to_mahimahi(tmp_path / "large")
    assert [each.name for each in tmp_path.iterdir()] == ["x"]
    for wrong in (0, -1, math.nan, math.inf):
        with pytest.raises(ValueError, match="mean_bps"):
            trace.scale(mean_bps=wrong)
        with pytest.raises(ValueError, match="bin_ms"):
            trace.rate(wrong)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [("inf", "no finite number"), ("-4", "is negative"), ("1e9", "above an hour")],
)
def test_hostile_latencies(tmp_path: Path, cell: str, reason: str) -> None:
    path = written(tmp_path, "x.csv", f"timestamp,rtt\n0,5\n1,{cell}\n")
    with pytest.raises(TraceError, match=reason) as caught:
        DelayTrace.from_latency(path)
    assert caught.value.line == 3
    path = written(tmp_path, "y.csv", "timestamp,rtt\n0,\n")
    with pytest.raises(TraceError, match="all answers are missing"):
        DelayTrace.from_latency(path)
