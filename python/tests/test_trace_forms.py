"""Forms of measurements: columns by number, missing values, Unix times, iperf3 and ping."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from anabranch import DelayTrace, Trace, TraceError, TraceWarning


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


#: Rates of 8, 16 and 24 Mbit/s, a second each, in files that have no heading or another separator.
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "no heading": ("0,8\n1,16\n2,24\n", {"time": 0, "rate": 1}),
    "heading, by number": ("when,what\n0,8\n1,16\n2,24\n", {"time": 0, "rate": 1}),
    "order": ("8,x,0\n16,x,1\n24,x,2\n", {"time": 2, "rate": 0}),
    "white space": ("  0   8\n 1\t16\n 2 24 \n", {"time": 0, "rate": 1, "delimiter": " "}),
    "names in white space": ("time  mbps\n0 8\n1 16\n2 24\n", {"delimiter": " "}),
    "comments": ("# made by x\n0 8\n# y\n1 16\n2 24\n", {"time": 0, "rate": 1, "delimiter": " "}),
    "heading in a comment": ("# time mbps\n0 8\n1 16\n2 24\n", {"delimiter": " "}),
    "tabs": ("time\tmbps\n0\t8\n1\t16\n2\t24\n", {"delimiter": "\t"}),
    "semicolons": ("time;mbps\n0;8\n1;16\n2;24\n", {"delimiter": ";"}),
    "number and name": ("time,mbps\n0,8\n1,16\n2,24\n", {"time": 0}),
}


@pytest.mark.parametrize("form", FORMS)
def test_columns_by_number_and_white_space(tmp_path: Path, form: str) -> None:
    text, keys = FORMS[form]
    trace = Trace.from_throughput(written(tmp_path, "x.txt", text), **keys)
    assert trace.rate(1000)["rate_bps"].tolist() == [8e6, 16e6, 24e6]


@pytest.mark.parametrize(
    ("text", "keys", "remedy"),
    [
        ("0,8\n1,8\n", {}, "without a heading, give columns by number, such as time=0"),
        ("time;mbps\n0;8\n", {}, "give delimiter=';'"),
        ("time mbps\n0 8\n", {}, "give delimiter=' '"),
        ("time,mbps\n0,8\n", {"delimiter": " "}, "give delimiter=','"),
        ("0,8\n1\n", {"time": 0, "rate": 1}, "only 1 cells"),
        ("0\t8\n1\t8\n", {"time": 0, "rate": 1}, r"only 1 cells; give delimiter='\\t'"),
        ("0;8\n1;8\n", {"time": 0, "rate": 1}, "only 1 cells; give delimiter=';'"),
        ("0,8\n1,8\n", {"time": 0, "rate": 7}, "only 2 cells"),
        ("# nothing\n", {}, "no column is called 'time'"),
        ("0 days 1,8\n", {"time": 0, "rate": 1}, "time_format= takes a pattern"),
        (",8\n", {"time": 0, "rate": 1}, "the row has no time: remove such rows"),
    ],
)
def test_other_forms_are_refused_with_the_remedy(
    tmp_path: Path, text: str, keys: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(TraceError, match=remedy):
        Trace.from_throughput(written(tmp_path, "x", text), **keys)


def test_wrong_columns_and_delimiters_are_named() -> None:
    rows = {"time": [0, 1], "mbps": [8, 8]}
    for keys in ({"time": -1}, {"rate": True}, {"delimiter": ", "}, {"delimiter": ""}):
        with pytest.raises(ValueError, match="number from 0|is no character"):
            Trace.from_throughput(rows, **keys)
    with pytest.raises(ValueError, match="gaps: 'fill' is none of outage, hold, error"):
        Trace.from_throughput(rows, gaps="fill")  # type: ignore[arg-type]
    array = np.array([[0, 8], [1, 16]])
    assert Trace.from_throughput(array, time=0, rate=1).total_bytes == 3e6
    with pytest.raises(TraceError, match="no column is called 2; there are 0, 1"):
        Trace.from_throughput(array, time=0, rate=2)


@pytest.mark.parametrize("missing", ["", "-", "NaN", "nan", "NA", "N/A", "null", "None", "<NA>"])
def test_missing_cells_of_files_are_gaps(tmp_path: Path, missing: str) -> None:
    rows = f"0,8\n1,{missing}\n2,8\n"
    with pytest.warns(TraceWarning, match="a gap of 1 s at 1 s"):
        trace = Trace.from_throughput(written(tmp_path, "x.csv", "time,mbps\n" + rows))
    assert trace.rate(1000)["rate_bps"].tolist() == [8e6, 0, 8e6]
    pings = DelayTrace.from_latency(written(tmp_path, "y.csv", "timestamp,rtt\n" + rows))
    assert pings.loss == pytest.approx(1 / 3)


def test_missing_values_of_pandas_are_gaps() -> None:
    pandas = pytest.importorskip("pandas")
    times = pandas.date_range("2024-01-01", periods=4, freq="s")
    columns = [
        [8.0, float("nan"), None, 8.0],
        pandas.array([8, None, pandas.NA, 8], dtype="Int64"),
        pandas.array([8.0, None, None, 8.0], dtype="Float64"),
        [8, None, pandas.NaT, 8],
    ]
    for values in columns:
        frame = pandas.DataFrame({"time": times, "mbps": values})
        with pytest.warns(TraceWarning, match="2 gaps"):
            assert Trace.from_throughput(frame).total_bytes == 2e6
        pings = DelayTrace.from_latency(frame, time="time", delay="mbps")
        assert pings.loss == 0.5
    frame = pandas.DataFrame({"time": [times[0], pandas.NaT], "mbps": [8.0, 8.0]})
    with pytest.raises(TraceError, match=r"row 2: the row has no time: .* df.dropna"):
        Trace.from_throughput(frame)
    frame = pandas.DataFrame({"time": times - times[0], "mbps": [8.0] * 4})
    with pytest.raises(TraceError, match="total_seconds"):
        Trace.from_throughput(frame)


def test_a_written_data_frame_is_read(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"time": [0, 1, 2], "mbps": [8.0, float("nan"), 8.0]})
    for number, keys in enumerate([{}, {"na_rep": "NaN"}, {"na_rep": "NULL"}]):
        path = tmp_path / f"{number}.csv"
        frame.to_csv(path, **keys)
        with pytest.warns(TraceWarning, match="gap"):
            assert Trace.from_throughput(path).total_bytes == 2e6


def test_gaps_are_outages_held_or_refused() -> None:
    rows = {"time": [0, 1, 2, 3, 9, 10], "mbps": [None, 8, None, 16, 24, 8]}
    with pytest.warns(TraceWarning, match="3 gaps, the longest of 5 s at 3 s"):
        trace = Trace.from_throughput(rows)
    assert (trace.rate(1000)["rate_bps"] / 8e6).tolist() == [0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        starts = Trace.from_throughput(rows | {"time": [0, 1, 2, 3, 4, 5]}, gaps="hold")
        assert (starts.rate(1000)["rate_bps"] / 8e6).tolist() == [1, 1, 1, 2, 3, 1]
        ends = Trace.from_throughput(rows | {"time": [1, 2, 3, 4, 5, 6]}, gaps="hold", stamp="end")
        assert ends.rate(1000)["rate_bps"].tolist() == starts.rate(1000)["rate_bps"].tolist()
    with pytest.warns(TraceWarning, match="longer than 1 s"):
        held = Trace.from_throughput(rows, gaps="hold")
    assert (held.rate(1000)["rate_bps"] / 8e6).tolist() == [1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 1]
    with pytest.raises(TraceError, match="a gap of 5 s at 3 s: gaps='outage' takes it"):
        Trace.from_throughput(rows, gaps="error")
    whole = {"time": [0, 1], "mbps": [8, 8]}
    assert Trace.from_throughput(whole, gaps="error").total_bytes == 2e6


def test_losses_of_pings_are_held_or_refused() -> None:
    rows = {"timestamp": [0, 1, 2], "rtt": [40, None, 60]}
    assert DelayTrace.from_latency(rows, gaps="hold").delay(1000)["delay_ms"].tolist() == [
        40,
        40,
        60,
    ]
    with pytest.raises(TraceError, match="a gap of 1 s at 1 s"):
        DelayTrace.from_latency(rows, gaps="error")
    rows = {"timestamp": [0, 1, 9, 10], "rtt": [40, 40, 60, 60]}
    with pytest.raises(TraceError, match="a gap of 8 s at 1 s"):
        DelayTrace.from_latency(rows, gaps="error")
    assert DelayTrace.from_latency(rows, gaps="hold").loss == 0


@pytest.mark.parametrize(
    ("unit", "factor"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)]
)
def test_unix_times_are_recognised(unit: str, factor: int) -> None:
    times = [1_700_000_000 * factor + second * factor for second in range(3)]
    rows = {"time": times, "mbps": [8, 8, 8]}
    assert Trace.from_throughput(rows).duration_s == pytest.approx(3)
    assert Trace.from_throughput(rows, time_unit=unit).duration_s == pytest.approx(3)
    pings = {"timestamp": times, "rtt": [8, 8, 8]}
    assert DelayTrace.from_latency(pings).duration_s == pytest.approx(2)
    if unit != "s":
        with pytest.raises(TraceError, match=f"give time_unit='{unit}'"):
            Trace.from_throughput(rows, time_unit="s")


def test_other_times_are_seconds() -> None:
    with pytest.warns(TraceWarning, match="longer than 1 s"):
        assert Trace.from_throughput({"time": [0, 1000], "mbps": [8, 8]}).duration_s == 2000


def iperf(rates: list[float], *, omitted: int = 0, key: str = "sum", pause: float = 0.0) -> str:
    """Return JSON in the form of iperf3: intervals of a second; the first may not count."""
    intervals = []
    for second, mbps in enumerate(rates):
        start = second + 0.0001 + (pause if second > 1 else 0)
        found = {
            "start": start,
            "end": start + 1.00005,
            "seconds": 1.00005,
            "bytes": int(mbps * 1e6 / 8),
            "bits_per_second": mbps * 1e6,
            "omitted": second < omitted,
        }
        intervals.append({"streams": [{**found, "socket": 5}], key: found})
    return json.dumps({"start": {"version": "iperf 3.12"}, "intervals": intervals, "end": {}})


def test_json_of_iperf3(tmp_path: Path) -> None:
    trace = Trace.from_throughput(written(tmp_path, "x.json", iperf([8, 16, 24])))
    assert trace.total_bytes == 6e6 and trace.duration_s == pytest.approx(3, abs=1e-3)
    assert trace.rate(1000)["rate_bps"][:2] == pytest.approx([8e6, 16e6], rel=1e-3)
    path = written(tmp_path, "y.json", iperf([99, 8, 16], omitted=1))
    assert Trace.from_throughput(path).total_bytes == 3e6
    path = written(tmp_path, "z.json", iperf([8, 16], key="sum_bidir_reverse"))
    assert Trace.from_throughput(path, rate="sum_bidir_reverse").total_bytes == 3e6
    with pytest.raises(TraceError, match="no 'sum'; its sums are sum_bidir_reverse"):
        Trace.from_throughput(path)
    intervals = json.loads(iperf([8, 16]))["intervals"]
    records = [
        {"event": "start", "data": {}},
        *({"event": "interval", "data": d} for d in intervals),
    ]
    lines = "\n".join(map(json.dumps, records)) + "\n"
    assert Trace.from_throughput(written(tmp_path, "s.json", lines)).total_bytes == 3e6


def test_pauses_of_iperf3_are_gaps(tmp_path: Path) -> None:
    path = written(tmp_path, "x.json", iperf([8, 8, 8], pause=4))
    with pytest.warns(TraceWarning, match="a gap of 3.99"):
        assert Trace.from_throughput(path).total_bytes == 3e6
    with pytest.raises(TraceError, match="a gap of 3.99"):
        Trace.from_throughput(path, gaps="error")
    with pytest.warns(TraceWarning, match="longer than 1 s, up to 4.99995 s: a bin"):
        assert Trace.from_throughput(path, gaps="hold").mean_bps == pytest.approx(8e6, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ('{"error": "unable to connect", "intervals": []}', "iperf3 failed: unable to connect"),
        ('{"rows": [1]}', "not of iperf3: read it by pandas.read_json"),
        ('{"intervals": [1]}', "not of iperf3"),
        ('{"intervals": []}', "no intervals that count"),
        ('{"intervals": [', "no JSON"),
        ('{"intervals": ' + "[" * 50_000, "nested too deeply|no JSON"),
        (iperf([8]).replace('"bytes": 1000000', '"bytes": true'), "no number from 0"),
        (iperf([8]).replace('"bytes": 1000000', '"bytes": -1'), "no number from 0"),
        (iperf([8]).replace('"bytes": 1000000', '"bytes": NaN'), "NaN is no number of JSON"),
        (iperf([8, 8]).replace('"start": 1.0001', '"start": 0.5'), "not in order"),
        (iperf([8]).replace('"bytes": 1000000', '"bytes": 9000000000000000'), "above 10 Tbit/s"),
        ('{"event": "error", "data": "broken pipe"}', "iperf3 failed: broken pipe"),
        (
            "Connecting to host\n[  5] local 1 port 2 connected\n"
            "[ ID] Interval           Transfer     Bitrate\n",
            "this is iperf3's text, rounded for people: run iperf3 --json",
        ),
    ],
)
def test_other_outputs_of_iperf3_are_refused(tmp_path: Path, text: str, remedy: str) -> None:
    with pytest.raises(TraceError, match=remedy):
        Trace.from_throughput(written(tmp_path, "x", text))
    with pytest.raises(TraceError):
        DelayTrace.from_latency(written(tmp_path, "x", text))


def pings(numbers: range, lost: set[int], *, end: str = "") -> str:
    """Return text in the form of iputils' `ping -D -O -i 0.1`: 20 ms, and 1 ms more each time."""
    lines = ["PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data."]
    for number in numbers:
        at, rtt = 1.7e9 + 0.1 * number, 20 + number % 10
        seq = number % 65_536
        if number in lost:
            lines.append(f"[{at + 0.1:.6f}] no answer yet for icmp_seq={seq}")
        else:
            text = f"64 bytes from 192.0.2.1: icmp_seq={seq} ttl=57 time={rtt:.1f} ms"
            lines.append(f"[{at + rtt / 1000:.6f}] {text}")
    return "\n".join(lines) + "\n" + end


def test_text_of_ping(tmp_path: Path) -> None:
    text = pings(range(1, 41), {3, 17}) + "[1700000009.0] 64 bytes: icmp_seq=9 time=900 ms (DUP!)\n"
    trace = DelayTrace.from_latency(written(tmp_path, "ping.txt", text))
    assert trace.loss == 2 / 40 and trace.duration_s == pytest.approx(3.9)
    assert trace.delay(100)["delay_ms"][:2].tolist() == [21, 22]
    assert math.isnan(trace.delay(100)["delay_ms"][2])
    # Without -O, numbers are missing; the summary has losses at the end.
    some = [line for line in text.splitlines() if "no answer" not in line and "=1 " not in line]
    end = "\n\n--- 192.0.2.1 ping statistics ---\n50 packets transmitted, 37 received\n"
    trace = DelayTrace.from_latency(written(tmp_path, "y.txt", "\n".join(some) + end))
    assert trace.loss == pytest.approx(13 / 50) and trace.duration_s == pytest.approx(4.9)
    held = DelayTrace.from_latency(tmp_path / "ping.txt", gaps="hold")
    assert held.loss == 0 and held.delay(100)["delay_ms"][2] == 22
    with pytest.raises(TraceError, match="a gap of 0.1 s at 0.2 s"):
        DelayTrace.from_latency(tmp_path / "ping.txt", gaps="error")


def test_numbers_of_ping_have_16_bits(tmp_path: Path) -> None:
    text = pings(range(1, 131_100), {65_536})
    trace = DelayTrace.from_latency(written(tmp_path, "x", text))
    assert trace.loss == pytest.approx(1 / 131_099) and trace.duration_s == pytest.approx(13_109.8)
    # The end of a log has no heading.
    tail = "\n".join(pings(range(65_530, 65_545), set()).splitlines()[1:])
    assert DelayTrace.from_latency(written(tmp_path, "y", tail)).loss == 0


HEADING = "PING 192.0.2.1 56(84) bytes of data.\n"


@pytest.mark.parametrize(
    "text",
    [
        HEADING + "64 bytes from 192.0.2.1: icmp_seq=1 time=9 ms\n",
        HEADING + "[1.5] no answer yet for icmp_seq=1\n",
        HEADING,
    ],
)
def test_ping_without_times_or_answers_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError, match="run ping -D, and -O"):
        DelayTrace.from_latency(written(tmp_path, "x", text))


def test_hostile_texts_of_ping_are_bounded(tmp_path: Path) -> None:
    line = "[{}] 64 bytes from x: icmp_seq={} ttl=1 time={} ms\n"
    for text, reason in [
        (
            HEADING + line.format(1, 1, 9) + "999999999 packets transmitted, 1",
            "more than .* requests",
        ),
        (line.format(1, 1, 9) + line.format(99_999_999, 2, 9), "49.7 days"),
        (line.format(1, 1, 3_600_001), "above an hour"),
    ]:
        with pytest.raises(TraceError, match=reason):
            DelayTrace.from_latency(written(tmp_path, "x", text))
