"""Statistics and logs of real sessions: the example, rules, hostile files."""

from __future__ import annotations

import json
import math
import pickle
import random
import warnings
from pathlib import Path
from typing import Any

import anabranch
import numpy as np
import pytest
from anabranch import LogError, TraceWarning, read_qlog, read_stats
from anabranch.testing import example

SEND, RECV = example("send.json"), example("recv.json")
LOGS = (example("send.sqlog"), example("recv.sqlog"))


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file."""
    texts = path.read_text(encoding="utf-8").replace("\x1e", "").splitlines()
    return [json.loads(text) for text in texts]


def last_of(path: Path) -> dict[str, Any]:
    """Return the stream of the last statistics that have one."""
    lines = [line for line in lines_of(path) if line.get("streams")]
    stream: dict[str, Any] = lines[-1]["streams"][0]
    return stream


def written(folder: Path, records: list[Any], mark: str = "") -> Path:
    """Write records of JSON."""
    path = folder / "x.json"
    path.write_text("".join(f"{mark}{json.dumps(record)}\n" for record in records))
    return path


def test_the_sender_s_statistics_are_those_of_its_last_line() -> None:
    result = read_stats(SEND, routes=("wifi", "lte"))
    counters = [path["counters"] for path in last_of(SEND)["paths"]]
    sent = sum(each["sent_packets"] for each in counters)
    assert result.runs["packets_sent"].tolist() == [sent]
    assert result.paths["packets_sent"].tolist() == [each["sent_packets"] for each in counters]
    assert result.paths["route"].tolist() == ["wifi", "lte"]
    assert result.path_series["dropped_packets"].sum() == sum(c["lost_packets"] for c in counters)
    assert result.reasons["packets"].sum() == sent
    assert (
        result.flows["frames_captured"].tolist() == [100.0] and "throughput_bps" not in result.flows
    )
    assert result.events["event"].tolist()[0] == "session-began"
    assert result.events["time_s"][0] == 0.0 and result.versions == [anabranch.__version__]


def test_the_receiver_s_statistics_have_deliveries() -> None:
    result, last = read_stats(RECV, flow="camera"), last_of(RECV)
    assert result.flows["frames_complete"].tolist() == [last["counters"]["frames_received"]]
    assert "sent_bps" not in result.path_series and "send_rate_bps" not in result.flows
    assert set(result.flow_series["flow"]) == {"camera"}
    total = result.flow_series["delivered_bps"].sum() / 8
    counted = sum(path["counters"]["received_bytes"] for path in last["paths"])
    assert total == pytest.approx(counted, rel=0.02)
    rate = 8 * last["counters"]["delivered_bytes"] / last["session_s"]
    assert result.flows["goodput_bps"].tolist() == pytest.approx([rate])


def test_counters_that_begin_again_are_added(tmp_path: Path) -> None:
    records = [line for line in lines_of(SEND) if line["event"] == "stats"]
    again = json.loads(json.dumps(records[:2]))
    for number, line in enumerate(again):
        line["uptime_s"] = records[-1]["uptime_s"] + 1 + number
    before = read_stats(SEND).runs["packets_sent"][0]
    part = read_stats(written(tmp_path, records[:2])).runs["packets_sent"][0]
    both = read_stats(written(tmp_path, [*records, *again]))
    assert both.runs["packets_sent"][0] == before + part


def test_each_program_of_a_file_is_a_run(tmp_path: Path) -> None:
    records = lines_of(SEND)
    path = written(tmp_path, records + lines_of(RECV))
    assert read_stats(path, run=0).flows["frames_captured"].tolist() == [100.0]
    received = last_of(RECV)["counters"]["frames_received"]
    assert read_stats(path).flows["frames_complete"].tolist() == [received]
    with pytest.raises(ValueError, match="the lines of 2 programs, and no 2"):
        read_stats(path, run=2)


def test_unknown_fields_and_events_are_ignored(tmp_path: Path) -> None:
    records = lines_of(SEND)
    for record in records:
        record["later"] = {"a": [1]}
        for stream in record.get("streams", []):
            stream["later"] = 5
            stream["counters"]["later"] = "text"
    later = {"event": "later", "uptime_s": records[-1]["uptime_s"], "stream": "video"}
    changed = read_stats(written(tmp_path, [*records[:-1], later, records[-1]]))
    assert changed.runs["packets_sent"].tolist() == read_stats(SEND).runs["packets_sent"].tolist()


def test_both_logs_know_delays_and_frames() -> None:
    result = read_qlog(*LOGS, routes=("wifi", "lte"))
    frames, packets = result.frames, result.packets
    assert frames["frame"].tolist() == list(range(100))
    assert set(frames["outcome"]) == {"complete"} and (frames["delay_ms"] > 15).all()
    forward = packets.where(direction="forward")
    arrived = forward.where(event="delivered")
    # The links of the scenario: 15 ms and 40 ms, and queues of 200 ms and 300 ms.
    for path, least, most in ((0, 15.0, 300.0), (1, 40.0, 450.0)):
        # Checks of addresses are missing at the sender.
        delays = arrived.where(path=path)["delay_ms"]
        delays = delays[~np.isnan(delays)]
        assert len(delays) > 100 and least <= delays.min() < least + 25 and delays.max() < most
    lost = forward.where(event="dropped")
    # `anabranch emulate` printed this number of packets that its links lost.
    assert len(lost) == 105 + 72
    assert result.runs["packets_dropped"][0] == len(packets.where(event="dropped"))
    assert result.path_series["time_s"][:4].tolist() == [0.1, 0.1, 0.2, 0.2]
    for name, event in (("sent_bps", "sent"), ("delivered_bps", "delivered")):
        series = result.path_series[name].sum() * 0.1 / 8
        assert series == pytest.approx(forward.where(event=event)["bytes"].sum())


def test_a_log_alone_has_what_its_end_knows() -> None:
    near, far = read_qlog(LOGS[0]), read_qlog(LOGS[1])
    assert "sent_bps" in near.path_series and "delivered_bps" not in near.path_series
    assert "delivered_bps" in far.path_series and "sent_bps" not in far.path_series
    assert "frames" not in near.table_names and "frames" not in far.table_names
    both = read_qlog(*LOGS)
    assert len(both.packets.where(event="delivered")) == sum(
        len(each.packets.where(event="delivered")) for each in (near, far)
    )
    swapped = read_qlog(LOGS[1], LOGS[0])
    assert swapped.frames["delay_ms"].tolist() == both.frames["delay_ms"].tolist()


def test_a_clock_s_offset_shifts_delays() -> None:
    plain = read_qlog(*LOGS).frames["delay_ms"]
    with pytest.warns(TraceWarning, match="arrive before they leave"):
        shifted = read_qlog(*LOGS, clock_offset_ms=-100.0).frames["delay_ms"]
    assert shifted - plain == pytest.approx(np.full(100, 100.0), abs=1e-3)
    with pytest.warns(TraceWarning, match="arrive before they leave"):
        read_qlog(*LOGS, clock_offset_ms=60.0)


def test_simulation_and_reality_are_one_result() -> None:
    scenario = anabranch.Scenario.load(example("session.toml"))
    simulated = anabranch.run(scenario, seeds=2, trace=["frames", "series"])
    measured = read_qlog(*LOGS, routes=("wifi", "lte"))
    both = anabranch.concat([simulated, measured])
    assert len(both.frames) == len(simulated.frames) + 100
    pytest.importorskip("matplotlib").use("Agg")
    ax = both.plot.cdf("frame_delay", by="flow")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["camera", "measured"]
    own = measured.path_series.where(route="wifi")
    curve = (own["time_s"], 1e-6 * own["delivered_bps"])
    ax = simulated.plot.series("delivered_bps", overlay={"measured, wifi": curve})
    assert "measured, wifi" in [text.get_text() for text in ax.get_legend().get_texts()]
    # The same columns as in simulated tables.
    for name in measured.table_names:
        documented = anabranch.columns().where(table=name)["column"].tolist()
        assert set(measured.table(name).names) <= set(documented), name
    for name in read_stats(SEND).table_names:
        documented = anabranch.columns().where(table=name)["column"].tolist()
        assert set(read_stats(SEND).table(name).names) <= set(documented), name
    assert measured._repr_html_() and read_stats(RECV)._repr_html_()


@pytest.mark.parametrize(
    ("text", "reason", "line"),
    [
        ("", "has no statistics", None),
        ("{}\n", "uptime_s is missing", 1),
        ("[1]\n", "no object of JSON", 1),
        ('{"event": "stats", "uptime_s": NaN}\n', "NaN is no number", 1),
        ('{"event": "stats", "uptime_s": 1e999}\n', "uptime_s is no number", 1),
        ('{"event": "stats", "uptime_s": "1"}\n', "uptime_s is no number", 1),
        ('{"event": "stats", "uptime_s": 1}\nnonsense\n', "no JSON", 2),
        ('{"event": "stats", "uptime_s": 1, "interval_s": 1}\n', "have no stream", None),
        ('{"uptime_s": 1}\n', "is it a file of --stats", 1),
        ("[" * 100_000 + "\n", "nested too deeply", 1),
        ('{"event": 7, "uptime_s": 1}\n', "event is no text", 1),
        (
            '{"event": "stats", "uptime_s": 1, "interval_s": 1, "streams": [{"counters": '
            '{"frames_sent": -1}}]}\n',
            r"streams\[0\].counters.frames_sent is no count",
            1,
        ),
        ('{"event": "stats", "uptime_s": 1, "interval_s": 1, "streams": 5}\n', "no list", 1),
    ],
)
def test_hostile_statistics(tmp_path: Path, text: str, reason: str, line: int | None) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(LogError, match=reason) as caught:
        read_stats(path)
    assert caught.value.line == line and caught.value.file == str(path)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is LogError and str(copy) == str(caught.value)


def test_records_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch._log_files.MAX_RECORDS", 3)
    with pytest.raises(LogError, match="more than 3 records"):
        read_stats(SEND)
    monkeypatch.setattr("anabranch._log_files.MAX_RECORD_BYTES", 100)
    with pytest.raises(LogError, match="longer than 100 bytes"):
        read_stats(SEND)


def test_a_last_line_that_is_cut_off_is_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(SEND.read_bytes()[:-300])
    with pytest.warns(TraceWarning, match="the last record is cut off"):
        read_stats(path)


def head(**common: Any) -> dict[str, Any]:
    """Return the first record of a log."""
    common = {"reference_time": 1.0, "time_format": "relative", **common}
    return {"qlog_version": "0.3", "trace": {"common_fields": common}}


def packet(name: str = "transport:packet_sent", **own: Any) -> dict[str, Any]:
    """Return an event of a packet."""
    data = {"header": {"packet_number": 1}, "raw": {"length": 9}}
    return {
        "time": 1.0,
        "name": name,
        "group_id": "video k path 0",
        "path": "0",
        "data": data,
        **own,
    }


@pytest.mark.parametrize(
    ("records", "error", "reason"),
    [
        ([], LogError, "is empty"),
        ([{}], LogError, "no qlog_version"),
        ([head(time_format="absolute")], LogError, "not relative"),
        ([head(reference_time=None)], LogError, "reference_time is missing"),
        ([head()], LogError, "has no packets"),
        ([head(), packet(path="x")], LogError, "path 'x' is no number"),
        ([head(), packet(path="9" * 9)], LogError, "is no number"),
        ([head(), packet(time=-5.0)], LogError, "not between 1970"),
        ([head(), packet(data={"header": {"packet_number": 0.5}})], LogError, "is no count"),
        ([head(), packet(), packet(group_id="video j path 0")], ValueError, "several sessions"),
        ([head(), packet(), packet(time=1e12)], ValueError, "rows of 100 ms"),
    ],
)
def test_hostile_logs(
    tmp_path: Path, records: list[Any], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        read_qlog(written(tmp_path, records, "\x1e"))


def test_logs_that_cannot_be_joined(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="same end"):
        read_qlog(LOGS[0], LOGS[0])
    twice = written(tmp_path, [head(), packet(), packet()], "\x1e")
    with pytest.raises(ValueError, match="packet numbers begin again"):
        read_qlog(twice, LOGS[1])
    assert len(read_qlog(twice).packets) == 2
    for wrong in ({"header_bytes": -1}, {"clock_offset_ms": math.nan}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            read_qlog(LOGS[0], **wrong)


def test_events_that_are_missing_are_warned_of(tmp_path: Path) -> None:
    left = {"time": 2.0, "name": "anabranch:events_left_out", "data": {"count": 4}}
    with pytest.warns(TraceWarning, match="too slow for 4 events"):
        read_qlog(written(tmp_path, [head(), packet(), left], "\x1e"))


@pytest.mark.parametrize("name", ["send.json", "recv.json", "send.sqlog", "recv.sqlog"])
def test_mutated_files_end_in_tables_or_an_error(tmp_path: Path, name: str) -> None:
    original = example(name).read_bytes()[:12_000]
    read = read_stats if name.endswith("json") else read_qlog
    dice = random.Random(f"mutated {name}")
    path = tmp_path / name
    outcomes = {"tables": 0, "error": 0}
    for _ in range(150):
        data = bytearray(original)
        for _ in range(dice.choice([1, 1, 2])):
            at = dice.randrange(len(data))
            data[at] = dice.choice(b'0123456789-.e"{}[],:x\n\x00\xff')
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceWarning)
            try:
                assert len(read(path).runs) == 1
                outcomes["tables"] += 1
            except (LogError, ValueError) as error:
                assert str(error)
                outcomes["error"] += 1
    assert min(outcomes.values()) > 5
