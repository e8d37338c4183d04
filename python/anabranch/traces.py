"""Traces of links, from the files of other tools: capacity over time, and delay over time."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from . import _arrivals
from . import _trace_files as files
from . import _trace_tables as tables
from . import _trace_tools as tools
from ._errors import TraceError, TraceWarning
from ._table import Table
from ._trace_files import OPPORTUNITY_BYTES, Floats, Pieces
from ._trace_tables import Column, Gaps

__all__ = ["DelayTrace", "Trace"]

#: Most lines that `to_mahimahi` writes: 0.5 GB, ten minutes of 1 Gbit/s.
MAX_LINES = 50_000_000
#: Most bins of a table, and entries of a schedule.
MAX_BINS = 10_000_000
#: Opportunities computed at once, which bounds memory.
_CHUNK = 1_000_000

_NO_GAPS = (np.empty(0), np.empty(0))

PathLike = str | os.PathLike[str]


class Trace:
    """Capacity of a link over time: the bytes on the wire that it can carry.

    Readers are `from_mahimahi`, `from_pantheon`, `from_throughput`, `from_flow_monitor` and
    `from_pcap`. A link of a scenario takes the file that `to_mahimahi` writes. A trace does not
    change.

    Readers raise `TraceError` with the file and line of a mistake, and `OSError` for a file that
    cannot be opened. They warn (`TraceWarning`) of gaps and of bins longer than a second. A file
    may have ten million rows.

    >>> import anabranch
    >>> trace = anabranch.Trace.from_throughput({"time": [0, 1, 2], "mbps": [4, 8, 6]})
    >>> trace
    <Trace 'data': 3 s, 6 Mbit/s>
    """

    __slots__ = ("_cumulative", "_duration_ms", "_pieces", "name")

    #: Name of the trace, by default that of its file.
    name: str

    def __init__(self, pieces: Pieces, duration_ms: float, name: str) -> None:
        self._pieces, self._duration_ms, self.name = pieces, duration_ms, name
        self._cumulative = np.concatenate(([0.0], np.cumsum(pieces.bytes)))

    @classmethod
    def _read(cls, pieces: Pieces, path: PathLike | None) -> Trace:
        name = "data" if path is None else Path(path).stem
        trace = cls(pieces, float(pieces.end_ms[-1]), name)
        if trace.total_bytes <= 0:
            raise TraceError("the trace carries no bytes", None if path is None else str(path))
        _warn_of(pieces, name)
        return trace

    @classmethod
    def from_mahimahi(cls, path: PathLike) -> Trace:
        """Read a file of mahimahi: each line is a time in ms at which 1504 bytes may be sent.

        Raises `TraceError` for a line that is no whole number or that descends.

        >>> import anabranch, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "lte.down")
        ...     _ = path.write_text("1\\n2\\n2\\n4\\n")
        ...     anabranch.Trace.from_mahimahi(path).total_bytes
        6016.0
        """
        return cls._read(files.mahimahi(os.fspath(path)), path)

    @classmethod
    def from_pantheon(
        cls, path: PathLike, *, scheme: str | None = None, run: int = 1, flow: int | None = None
    ) -> Trace:
        """Read a log of Pantheon's tunnel or of mm-link, or one of a folder of Pantheon's results.

        If the log has an emulated link's capacity, that is the trace. Otherwise it is the bytes
        delivered, a lower bound of the capacity: of all flows, or of the `flow` with this number.
        `scheme` and `run` choose `SCHEME_datalink_runRUN.log`; a folder with one scheme needs none.

        Raises `TraceError`, also for a scheme that the folder lacks.

        >>> import anabranch, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     log = pathlib.Path(folder, "bbr_datalink_run1.log")
        ...     _ = log.write_text("0 + 1500 1\\n20 - 1500 20 1\\n30 - 1500 28 1\\n")
        ...     anabranch.Trace.from_pantheon(folder).total_bytes
        3000.0
        """
        log = files.pantheon_log(os.fspath(path), scheme, run)
        return cls._read(files.pantheon(log, flow), log)

    @classmethod
    def from_throughput(
        cls,
        data: PathLike | Mapping[str, Any] | Any,
        *,
        time: Column | None = "time",
        rate: Column = "mbps",
        unit: str = "Mbit/s",
        time_unit: str | None = None,
        time_format: str | None = None,
        interval_ms: float | None = None,
        stamp: Literal["start", "end"] = "start",
        repeated: Literal["error", "mean"] = "error",
        gaps: Gaps = "outage",
        delimiter: str = ",",
    ) -> Trace:
        """Read a throughput for each interval, as in data sets of 4G and 5G networks.

        `data`: a text file, or columns: a dictionary, a `Table`, a data frame or an array of two
        dimensions; or a file of `iperf3 --json` or `--json-stream`, which needs no other argument
        (`rate="sum_bidir_reverse"`: the way back of `--bidir`).
        `time`, `rate`: names of columns, or their numbers from 0, with which a file needs no
        heading. `delimiter`: of a file's cells; " " is any white space. Times are numbers in
        `time_unit` ("s", "ms", "us", "ns"), ISO 8601, or as in `time_format`, a pattern of
        `strptime`. Without `time_unit` they are seconds, or Unix times in any of these units.
        `unit`: bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s or MB/s. `stamp`: whether a row's time
        starts or ends its interval. A row lasts to the next one.
        `interval_ms`: longest time that a row lasts; with `time=None`, that of every row.
        `repeated`: "mean" takes the mean of rows of equal times.
        `gaps`: after more than 2.5 median intervals there is a gap, as in a row whose rate is
        missing (an empty cell, "-", or a missing value of pandas). "outage" carries no bytes in it
        and warns, "hold" keeps the rate before it, "error" refuses it.

        Raises `TraceError` for times that descend, and for numbers that are negative or infinite;
        `ValueError` for an unknown unit.

        >>> import anabranch
        >>> rows = {"at": ["2020-01-01 10:00:00", "2020-01-01 10:00:01"], "DL": [800, 1600]}
        >>> trace = anabranch.Trace.from_throughput(rows, time="at", rate="DL", unit="kbit/s")
        >>> trace.total_bytes
        300000.0
        >>> held = {"time": [0, 1, 2], "mbps": [8, None, 8]}
        >>> anabranch.Trace.from_throughput(held, gaps="hold").total_bytes
        3000000.0
        """
        _one_of("unit", unit, files.RATE_UNITS)
        _one_of("stamp", stamp, ("start", "end"))
        _one_of("repeated", repeated, ("error", "mean"))
        _one_of("gaps", gaps, tables.GAPS)
        if interval_ms is not None:
            _positive("interval_ms", interval_ms, files.MAX_MS)
        elif time is None:
            raise ValueError("interval_ms: needed without a column of times")
        path = data if isinstance(data, (str, os.PathLike)) else None
        file = None if path is None else os.fspath(path)
        if file is not None:
            head = tools.head_of(file)
            if head.startswith(b"{"):
                total = rate if str(rate).startswith("sum") else "sum"
                return cls._read(tools.iperf3(file, str(total), gaps), path)
            tools.refuse_text_of_iperf(file, head)
        columns: list[Column] = [rate] if time is None else [time, rate]
        rows = tables.rows_of(data, file, columns, delimiter)
        clock = None if time is None else tables.clock(time_unit, time_format)
        read = partial(tables.rate_of, unit, file)
        times, rates = tables.samples(rows, file, clock, read, interval_ms, repeated)
        return cls._read(tables.throughput(times, rates, file, interval_ms, stamp, gaps), path)

    @classmethod
    def from_flow_monitor(cls, path: PathLike, *, flow: int | None = None) -> Trace:
        """Read the XML file of ns-3's flow monitor: the rate at which flows received.

        The file has sums only. So a flow has one rate, from its first to its last delivery, and
        flows that overlap are added. `flow`: number of the only flow to read.

        Raises `TraceError`, also for a document type and for a file without deliveries.

        >>> import anabranch, pathlib, tempfile, warnings
        >>> flow = '<Flow flowId="1" timeFirstRxPacket="+0ns" timeLastRxPacket="+1e+09ns"'
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "flows.xml")
        ...     _ = path.write_text("<FlowMonitor><FlowStats>" + flow + ' rxBytes="125000"/>'
        ...         "</FlowStats></FlowMonitor>")
        ...     anabranch.Trace.from_flow_monitor(path).mean_bps
        1000000.0
        """
        return cls._read(files.flow_monitor(os.fspath(path), flow), path)

    @classmethod
    def from_pcap(
        cls,
        path: PathLike,
        *,
        source: str | None = None,
        destination: str | None = None,
        port: int | None = None,
    ) -> Trace:
        """Read a capture of packets, pcap or pcapng: the bytes of IP packets as they were captured.

        `source`, `destination`: an address or network whose packets count, so that one direction
        remains; `port`: of either end. Links' headers do not count. It is what arrived, a lower
        bound of the capacity. Capture at the receiver, without GRO (`ethtool -K eth0 gro off`).

        Raises `TraceError` with the `offset` of a mistake, and `ValueError` for an address.

        >>> import anabranch
        >>> capture = anabranch.testing.example("udp.pcap")
        >>> trace = anabranch.Trace.from_pcap(capture, destination="127.0.0.1", port=17900)
        >>> trace.total_bytes > 100_000
        True
        """
        file = os.fspath(path)
        return cls._read(_arrivals.arrivals(file, source, destination, port), path)

    @property
    def duration_s(self) -> float:
        """Duration in seconds, after which a link repeats the trace.

        >>> import anabranch
        >>> anabranch.Trace.from_throughput({"time": [0, 1], "mbps": [4, 8]}).duration_s
        2.0
        """
        return self._duration_ms / 1000.0

    @property
    def total_bytes(self) -> float:
        """Bytes on the wire that the link carries in the trace's duration.

        >>> import anabranch
        >>> anabranch.Trace.from_throughput({"time": [0, 1], "mbps": [4, 8]}).total_bytes
        1500000.0
        """
        return float(self._cumulative[-1])

    @property
    def mean_bps(self) -> float:
        """Mean rate in bit/s.

        >>> import anabranch
        >>> anabranch.Trace.from_throughput({"time": [0, 1], "mbps": [4, 8]}).mean_bps
        6000000.0
        """
        return 8.0 * self.total_bytes / self.duration_s

    def rate(self, bin_ms: float = 100) -> Table:
        """Return a table of `time_s`, the end of each bin, and `rate_bps`, its mean rate.

        The last bin may be shorter. Raises `ValueError` for more than ten million bins.

        >>> import anabranch
        >>> trace = anabranch.Trace.from_throughput({"time": [0, 1], "mbps": [4, 8]})
        >>> trace.rate(bin_ms=500)["rate_bps"].tolist()
        [4000000.0, 4000000.0, 8000000.0, 8000000.0]
        """
        edges = _edges(self._duration_ms, bin_ms)
        carried = np.diff(self._carried(edges))
        # The first bin has also the bytes at 0.
        carried[0] += self._carried(edges[:1])[0]
        bps = 8000.0 * carried / np.diff(edges)
        return Table.from_columns({"time_s": edges[1:] / 1000.0, "rate_bps": bps})

    def _carried(self, time_ms: Floats) -> Floats:
        """Return the bytes carried up to each time."""
        pieces = self._pieces
        done = np.searchsorted(pieces.end_ms, time_ms, side="right")
        carried: Floats = self._cumulative[done]
        at = np.minimum(done, len(pieces.end_ms) - 1)
        within = (done < len(pieces.end_ms)) & (pieces.start_ms[at] < time_ms)
        at = at[within]
        share = (time_ms[within] - pieces.start_ms[at]) / (pieces.end_ms[at] - pieces.start_ms[at])
        carried[within] += pieces.bytes[at] * share
        return carried

    def scale(self, *, mean_bps: float) -> Trace:
        """Return a trace of the same shape with another mean rate, in bit/s.

        >>> import anabranch
        >>> trace = anabranch.Trace.from_throughput({"time": [0, 1], "mbps": [4, 8]})
        >>> trace.scale(mean_bps=3e6).rate(1000)["rate_bps"].tolist()
        [2000000.0, 4000000.0]
        """
        _positive("mean_bps", mean_bps, files.MAX_BPS)
        old = self._pieces
        sizes = old.bytes * (mean_bps / self.mean_bps)
        return Trace(
            Pieces(old.start_ms, old.end_ms, sizes, _NO_GAPS), self._duration_ms, self.name
        )

    def window(self, a: float, b: float) -> Trace:
        """Return the part from `a` to `b` seconds, which then begins at 0.

        Raises `ValueError` for a part that is empty, outside the trace, or without bytes.

        >>> import anabranch
        >>> trace = anabranch.Trace.from_throughput({"time": [0, 1], "mbps": [4, 8]})
        >>> trace.window(0.5, 1.5).total_bytes
        750000.0
        """
        if not 0 <= a < b <= self.duration_s:
            raise ValueError(f"window: {a:g} to {b:g} s is no part of 0 to {self.duration_s:g} s")
        begin, end = 1000.0 * a, 1000.0 * b
        old = self._pieces
        is_event = old.start_ms == old.end_ms
        after = (old.end_ms > begin) | ((old.end_ms == 0) & (begin == 0))
        keep = after & np.where(is_event, old.end_ms <= end, old.start_ms < end)
        start, stop = old.start_ms[keep], old.end_ms[keep]
        first, last = np.maximum(start, begin), np.minimum(stop, end)
        width = stop - start
        share = np.divide(last - first, width, out=np.ones_like(width), where=width > 0)
        sizes = old.bytes[keep] * share
        if not sizes.sum() > 0:
            raise ValueError(f"window: {a:g} to {b:g} s carries no bytes")
        return Trace(Pieces(first - begin, last - begin, sizes, _NO_GAPS), end - begin, self.name)

    def to_mahimahi(self, path: PathLike, *, overwrite: bool = False) -> Path:
        """Write a file of mahimahi for a link's `trace`, and return its absolute path.

        Opportunities have whole milliseconds. The bytes up to any of them are those of the trace,
        to one packet of 1504 bytes. The last opportunity is at the trace's end, at which it
        repeats. The file appears under its name when it is complete.

        Raises `FileExistsError`, unless `overwrite`, and `ValueError` for over 50 million lines.

        >>> import anabranch, tempfile
        >>> trace = anabranch.Trace.from_throughput({"time": [0, 1], "mbps": [4, 8]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = trace.to_mahimahi(folder + "/up.trace")
        ...     round(anabranch.Trace.from_mahimahi(path).mean_bps)
        5997952
        """
        target = Path(path).absolute()
        if target.exists() and not overwrite:
            raise FileExistsError(f"{target} exists; overwrite=True replaces it")
        count = self._opportunity_count
        if count > MAX_LINES:
            text = f"{count} lines are more than {MAX_LINES}"
            raise ValueError(f"{text}: take a window, or scale the trace to a lower rate")
        temporary = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            with open(temporary, "w", encoding="ascii", newline="\n") as file:
                lines = ("\n".join(map(str, times)) + "\n" for times in self._opportunities())
                file.writelines(lines)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        return target

    @property
    def _opportunity_count(self) -> int:
        return max(1, round(self.total_bytes / OPPORTUNITY_BYTES))

    def _opportunities(self) -> Iterator[list[int]]:
        """Yield the opportunities in ms, a part at a time: each when its last byte is due."""
        pieces, count = self._pieces, self._opportunity_count
        end = max(1, math.ceil(self._duration_ms - 1e-6))
        for first in range(0, count, _CHUNK):
            numbers = np.arange(first + 1, min(first + _CHUNK, count) + 1)
            due = np.minimum(numbers * OPPORTUNITY_BYTES, self.total_bytes)
            # The factor is beyond the rounding error of the sums.
            at = np.searchsorted(self._cumulative[1:], due * (1 - 1e-12), side="left")
            share = np.clip((due - self._cumulative[at]) / pieces.bytes[at], 0.0, 1.0)
            time = pieces.start_ms[at] + share * (pieces.end_ms[at] - pieces.start_ms[at])
            whole = np.minimum(np.ceil(time - 1e-6).astype(np.int64), end)
            if first + len(whole) == count:
                whole[-1] = end
            yield whole.tolist()

    def __repr__(self) -> str:
        return f"<Trace {self.name!r}: {self.duration_s:g} s, {self.mean_bps / 1e6:g} Mbit/s>"


class DelayTrace:
    """Delay of a path over time, as pings measure it; missing answers are losses.

    >>> import anabranch
    >>> pings = {"timestamp": [0, 1, 2, 3], "rtt": [40, 60, None, 50]}
    >>> anabranch.DelayTrace.from_latency(pings)
    <DelayTrace 'data': 3 s, mean 50 ms, 25 % lost>
    """

    __slots__ = ("_delays_ms", "_times_ms", "name")

    #: Name of the trace, by default that of its file.
    name: str

    def __init__(self, times_ms: Floats, delays_ms: Floats, name: str) -> None:
        self._times_ms, self._delays_ms, self.name = times_ms, delays_ms, name

    @classmethod
    def from_latency(
        cls,
        data: PathLike | Mapping[str, Any] | Any,
        *,
        time: Column = "timestamp",
        delay: Column = "rtt",
        unit: str = "ms",
        time_unit: str | None = None,
        time_format: str | None = None,
        lost: Sequence[float] = (-1.0,),
        gaps: Gaps = "outage",
        delimiter: str = ",",
    ) -> DelayTrace:
        """Read delays from a file or from columns, such as the pings of Starlink data sets.

        The text of `ping -D` needs no other argument; requests without an answer are lost. The
        usual names are those of the CSV files of LENS. Its files of irtt have times in ns and a
        `rtt` of -1 or 0 for losses: `time_unit="ns", lost=(-1, 0)`. `unit`: of the delay, "s",
        "ms", "us" or "ns". `time`, `delay`, `time_unit`, `time_format` and `delimiter` are as in
        `Trace.from_throughput`. `lost`: values that stand for a loss, as do an empty cell, "-" and
        missing values of pandas. Rows of equal times count as their mean.
        `gaps`: "outage" counts losses and warns of times without rows, "hold" replaces a loss by
        the delay before it, "error" refuses both.

        Raises `TraceError` as `Trace.from_throughput`, and for a delay over an hour.

        >>> import anabranch
        >>> rows = {"timestamp": [0, 1], "rtt": [0.04, 0.06]}
        >>> anabranch.DelayTrace.from_latency(rows, unit="s").mean_ms
        50.0
        """
        _one_of("unit", unit, files.TIME_UNITS)
        _one_of("gaps", gaps, tables.GAPS)
        path = data if isinstance(data, (str, os.PathLike)) else None
        file = None if path is None else os.fspath(path)
        name = "data" if path is None else Path(path).stem
        head = b"" if file is None else tools.head_of(file)
        if file is not None and tools.is_of_ping(head):
            return cls(*tools.ping(file, gaps), name)
        if head.startswith((b"{", b"[{")):
            raise TraceError("JSON has no columns: give pandas.read_json(…), a data frame", file)
        rows = tables.rows_of(data, file, [time, delay], delimiter)
        clock = tables.clock(time_unit, time_format)
        read = partial(tables.delay_of, unit, file, tuple(lost))
        times, delays = tables.samples(rows, file, clock, read, None, "mean")
        if np.all(np.isnan(delays)):
            raise TraceError("all answers are missing", file)
        spacing = np.diff(times)
        usual = float(np.median(spacing)) if len(spacing) else 0.0
        is_gap = spacing > max(1000.0, tables.GAP_INTERVALS * usual)
        found = (times[:-1][is_gap], spacing[is_gap])
        if gaps == "error":
            tables.refuse_gaps(found, file)
            is_lost = np.isnan(delays)
            tables.refuse_gaps((times[is_lost], np.full(int(is_lost.sum()), usual)), file)
        if gaps == "hold":
            delays = tables.held(delays)
        else:
            _warn(name, found, "no measurements", 3)
        return cls(times, delays, name)

    @property
    def duration_s(self) -> float:
        """Time from the first to the last measurement, in seconds.

        >>> import anabranch
        >>> rows = {"timestamp": [0, 1], "rtt": [40, 60]}
        >>> anabranch.DelayTrace.from_latency(rows).duration_s
        1.0
        """
        return float(self._times_ms[-1]) / 1000.0

    @property
    def mean_ms(self) -> float:
        """Mean delay of the answers, in ms.

        >>> import anabranch
        >>> rows = {"timestamp": [0, 1], "rtt": [40, 60]}
        >>> anabranch.DelayTrace.from_latency(rows).mean_ms
        50.0
        """
        return float(np.nanmean(self._delays_ms))

    @property
    def loss(self) -> float:
        """Share of measurements without an answer.

        >>> import anabranch
        >>> rows = {"timestamp": [0, 1], "rtt": [40, None]}
        >>> anabranch.DelayTrace.from_latency(rows).loss
        0.5
        """
        return float(np.mean(np.isnan(self._delays_ms)))

    def window(self, a: float, b: float) -> DelayTrace:
        """Return the measurements from `a` until before `b` seconds; `a` becomes 0.

        Raises `ValueError` for a part without answers.

        >>> import anabranch
        >>> rows = {"timestamp": [0, 1, 2], "rtt": [40, 60, 80]}
        >>> anabranch.DelayTrace.from_latency(rows).window(1, 3).mean_ms
        70.0
        """
        keep = (self._times_ms >= 1000.0 * a) & (self._times_ms < 1000.0 * b)
        if not np.any(keep & ~np.isnan(self._delays_ms)):
            raise ValueError(f"window: {a:g} to {b:g} s has no answers")
        return DelayTrace(self._times_ms[keep] - 1000.0 * a, self._delays_ms[keep], self.name)

    def delay(self, bin_ms: float = 1000) -> Table:
        """Return a table of `time_s`, the begin of each bin, mean `delay_ms`, and `loss`.

        A bin without measurements has NaN. Raises `ValueError` for over ten million bins.

        >>> import anabranch
        >>> rows = {"timestamp": [0, 1, 2, 3], "rtt": [40, 60, None, 50]}
        >>> anabranch.DelayTrace.from_latency(rows).delay(2000)["loss"].tolist()
        [0.0, 0.5]
        """
        edges = _edges(self.duration_s * 1000.0 + bin_ms, bin_ms)
        bins = np.minimum(np.searchsorted(edges, self._times_ms, side="right") - 1, len(edges) - 2)
        last = int(bins[-1]) + 1
        is_lost = np.isnan(self._delays_ms)
        asked = np.bincount(bins, minlength=last)
        answered = np.bincount(bins[~is_lost], minlength=last)
        total = np.bincount(bins[~is_lost], self._delays_ms[~is_lost], minlength=last)
        nothing = np.full(last, np.nan)
        mean = np.divide(total, answered, out=nothing.copy(), where=answered > 0)
        loss = np.divide(asked - answered, asked, out=nothing, where=asked > 0)
        return Table.from_columns({"time_s": edges[:last] / 1000.0, "delay_ms": mean, "loss": loss})

    def to_schedule(
        self, bin_ms: float = 1000, *, round_trip: bool = True
    ) -> list[dict[str, float]]:
        """Return a link's `delay-schedule`: a delay from the begin of each bin with answers.

        `round_trip`: the delays are of round trips, and the link has half of each. Losses are not
        part of a schedule; `loss` has their share.

        >>> import anabranch
        >>> rows = {"timestamp": [0, 1], "rtt": [40, 60]}
        >>> anabranch.DelayTrace.from_latency(rows).to_schedule()
        [{'at_s': 0.0, 'delay_ms': 20.0}, {'at_s': 1.0, 'delay_ms': 30.0}]
        """
        table = self.delay(bin_ms)
        known = ~np.isnan(table["delay_ms"])
        share = 0.5 if round_trip else 1.0
        pairs = zip(table["time_s"][known], share * table["delay_ms"][known], strict=True)
        return [{"at_s": float(at), "delay_ms": float(delay)} for at, delay in pairs]

    def __repr__(self) -> str:
        text = f"{self.duration_s:g} s, mean {self.mean_ms:g} ms, {100 * self.loss:g} % lost"
        return f"<DelayTrace {self.name!r}: {text}>"


def _one_of(name: str, value: str, known: Any) -> None:
    if value not in known:
        raise ValueError(f"{name}: {value!r} is none of {', '.join(known)}")


def _positive(name: str, value: float, most: float) -> None:
    if not 0 < value <= most:
        raise ValueError(f"{name}: {value} is not above 0 and at most {most:g}")


def _edges(duration_ms: float, bin_ms: float) -> Floats:
    """Return the bounds of bins, of which the last may be shorter."""
    _positive("bin_ms", bin_ms, files.MAX_MS)
    count = max(1, math.ceil(duration_ms / bin_ms - 1e-9))
    if count > MAX_BINS:
        raise ValueError(f"bin_ms: {count} bins are more than {MAX_BINS}")
    edges: Floats = np.arange(count + 1, dtype=np.float64) * float(bin_ms)
    edges[-1] = duration_ms
    return edges


def _warn_of(pieces: Pieces, name: str) -> None:
    _warn(name, pieces.gaps, "no bytes", 5)
    width = pieces.end_ms - pieces.start_ms
    # Intervals of a second have the error of the tool's clock.
    is_long = (width > 1050.0) & (pieces.bytes > 0)
    if np.any(is_long):
        count = int(np.count_nonzero(is_long))
        bins = "a bin" if count == 1 else f"{count} bins"
        text = f"{name}: longer than 1 s, up to {width[is_long].max() / 1000:g} s: {bins}"
        text += "; how the rate varies within is unknown"
        warnings.warn(text, TraceWarning, stacklevel=4)


def _warn(name: str, gaps: tuple[Floats, Floats], lack: str, level: int) -> None:
    starts, lengths = gaps
    if len(starts):
        at = int(np.argmax(lengths))
        count = "a gap" if len(starts) == 1 else f"{len(starts)} gaps, the longest"
        text = f"{name}: {count} of {lengths[at] / 1000:g} s at {starts[at] / 1000:g} s"
        warnings.warn(f"{text}, with {lack}", TraceWarning, stacklevel=level)
