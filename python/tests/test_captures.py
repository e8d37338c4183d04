"""Captures of packets as traces: formats, filters, hostile files."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
import warnings
from pathlib import Path

import anabranch
import pytest
from anabranch import Trace, TraceError, TraceWarning
from anabranch.testing import example

#: Time in s, bytes of UDP payload, and whether it goes to the receiver.
SENT = [(0.0, 1000, True), (0.25, 200, False), (0.5, 1200, True), (1.0, 1400, True)]
NEAR, FAR = bytes([192, 0, 2, 1]), bytes([198, 51, 100, 9])
#: UDP and IP bytes of the packets to the receiver.
TO_FAR = 1000 + 1200 + 1400 + 3 * 28


def ip_packet(payload: int, is_forward: bool, source: bytes = NEAR, to: bytes = FAR) -> bytes:
    """Return the headers of a UDP packet over IPv4 or IPv6, without its payload."""
    if not is_forward:
        source, to = to, source
    ports = struct.pack(">HHHH", *((40_000, 7_000) if is_forward else (7_000, 40_000)), 8, 0)
    if len(source) == 16:
        return struct.pack(">IHBB", 6 << 28, payload + 8, 17, 64) + source + to + ports
    total = payload + 28
    return struct.pack(">BBHHHBBH", 0x45, 0, total, 0, 0, 64, 17, 0) + source + to + ports


ETHERNET = bytes(12) + b"\x08\x00"
#: Link types with the header that stands before an IP packet.
LINKS = {
    1: ETHERNET,
    101: b"",
    9: b"\x00\x21",
    0: b"\x02\x00\x00\x00",
    113: bytes(14) + b"\x08\x00",
    276: b"\x08\x00" + bytes(18),
}


def pcap(link_type: int, head: bytes, order: str = "<", magic: int = 0xA1B2C3D4) -> bytes:
    """Return a capture of `SENT`, in µs or with the other magic in ns."""
    unit = 1_000_000 if magic == 0xA1B2C3D4 else 1_000_000_000
    file = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65_535, link_type)
    for at, payload, is_forward in SENT:
        packet = head + ip_packet(payload, is_forward)
        times = (1_700_000_000 + int(at), round(at % 1 * unit))
        file += struct.pack(order + "IIII", *times, len(packet), len(packet) + payload) + packet
    return file


def block(order: str, kind: int, body: bytes) -> bytes:
    """Return a block of pcapng."""
    body += bytes(-len(body) % 4)
    length = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + length + body + length


def pcapng(order: str = "<", resolution: bytes = b"", unit: int = 1_000_000) -> bytes:
    """Return a capture of `SENT` by two interfaces, with a block of names in between."""
    options = struct.pack(order + "HH", 9, 1) + resolution + bytes(3) if resolution else b""
    section = struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1)
    file = block(order, 0x0A0D0D0A, section)
    for _ in range(2):
        file += block(order, 1, struct.pack(order + "HHI", 101, 0, 0) + options)
    file += block(order, 4, bytes(10))
    for number, (at, payload, is_forward) in enumerate(SENT):
        packet = ip_packet(payload, is_forward)
        ticks = round((1_700_000_000 + at) * unit)
        words = (number % 2, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), len(packet) + payload)
        file += block(order, 6, struct.pack(order + "IIIII", *words) + packet)
    return file


def written(folder: Path, data: bytes) -> Path:
    """Write a file."""
    path = folder / "x.pcap"
    path.write_bytes(data)
    return path


def check(trace: Trace) -> None:
    """Check the packets to the receiver."""
    assert trace.total_bytes == TO_FAR and trace.duration_s == 1.0
    rates = trace.rate(bin_ms=500)["rate_bps"].tolist()
    assert rates == pytest.approx([16.0 * (1000 + 1200 + 56), 16.0 * (1400 + 28)])


@pytest.mark.parametrize("link_type", LINKS)
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D])
def test_captures_of_all_links(tmp_path: Path, link_type: int, order: str, magic: int) -> None:
    path = written(tmp_path, pcap(link_type, LINKS[link_type], order, magic))
    check(Trace.from_pcap(path, destination="198.51.100.9"))


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(
    ("resolution", "unit"), [(b"", 10**6), (b"\x09", 10**9), (b"\x03", 10**3), (b"\x94", 2**20)]
)
def test_pcapng_with_its_resolutions(
    tmp_path: Path, order: str, resolution: bytes, unit: int
) -> None:
    check(Trace.from_pcap(written(tmp_path, pcapng(order, resolution, unit)), source="192.0.2.1"))


def test_filters(tmp_path: Path) -> None:
    path = written(tmp_path, pcap(1, ETHERNET))
    assert Trace.from_pcap(path).total_bytes == TO_FAR + 228
    check(Trace.from_pcap(path, destination="198.51.100.0/24", port=7_000))
    for filters in ({"port": 53}, {"source": "2001:db8::1"}, {"destination": "10.0.0.0/8"}):
        with pytest.raises(TraceError, match="no packets match"):
            Trace.from_pcap(path, **filters)
    with pytest.raises(ValueError, match="source: 'nowhere' is no address"):
        Trace.from_pcap(path, source="nowhere")


def test_ipv6_vlans_and_other_protocols(tmp_path: Path) -> None:
    near, far = bytes(15) + b"\x01", bytes(15) + b"\x02"
    file = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    tagged = bytes(12) + b"\x81\x00\x00\x05\x86\xdd"
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    for at, head in enumerate([tagged, tagged]):
        packet = head + ip_packet(500, True, near, far)
        file += struct.pack("<IIII", at, 0, len(packet), len(packet) + 500) + packet
        file += struct.pack("<IIII", at, 9, len(arp), len(arp)) + arp
    trace = Trace.from_pcap(written(tmp_path, file), destination="::2", port=7_000)
    assert trace.total_bytes == 2 * (500 + 48)


def fragmented(is_v6: bool, order: list[int], port: int = 7_000) -> bytes:
    """Return a capture of two datagrams of three fragments each, in an order of arrival."""
    file = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101)
    near, far = (bytes(15) + b"\x01", bytes(15) + b"\x02") if is_v6 else (NEAR, FAR)
    for second, own_port in enumerate((port, 53)):
        for at, place in enumerate(order):
            offset, has_more = 125 * place, place < 2
            ports = struct.pack(">HHHH", 40_000, own_port, 0, 0) if place == 0 else bytes(8)
            body = ports + bytes(992)
            if is_v6:
                header = struct.pack(">BBHI", 17, 0, offset << 3 | has_more, 70_000)
                packet = struct.pack(">IHBB", 6 << 28, 8 + len(body), 44, 64) + near + far + header
            else:
                flags = offset | has_more << 13
                head = struct.pack(">BBHHHBBH", 0x45, 0, 1_020, second, flags, 64, 17, 0)
                packet = head + near + far
            packet += body
            file += struct.pack("<IIII", 100 * second, at, len(packet), len(packet)) + packet
    return file


@pytest.mark.parametrize("is_v6", [False, True])
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_fragments_have_the_port_of_their_datagram(
    tmp_path: Path, is_v6: bool, order: list[int]
) -> None:
    path = written(tmp_path, fragmented(is_v6, order))
    with warnings.catch_warnings():
        warnings.simplefilter("error", TraceWarning)
        trace = Trace.from_pcap(path, port=7_000)
    assert trace.total_bytes == 3 * (1_048 if is_v6 else 1_020)
    with pytest.warns(TraceWarning, match="a gap of 100 s"):
        assert Trace.from_pcap(path).total_bytes == 2 * trace.total_bytes


def test_fragments_without_their_first_one_are_warned_of(tmp_path: Path) -> None:
    with pytest.warns(TraceWarning, match="4 fragments have no port"):
        with pytest.raises(TraceError, match="no packets match"):
            Trace.from_pcap(written(tmp_path, fragmented(False, [2, 1])), port=7_000)


@pytest.mark.parametrize("data", [pcap(1, ETHERNET), pcapng()], ids=["pcap", "pcapng"])
def test_captures_within_gzip(tmp_path: Path, data: bytes) -> None:
    packed = gzip.compress(data)
    check(Trace.from_pcap(written(tmp_path, packed), destination="198.51.100.9"))
    several = gzip.compress(data[:40]) + gzip.compress(data[40:])
    check(Trace.from_pcap(written(tmp_path, several), destination="198.51.100.9"))
    with pytest.warns(TraceWarning, match="last packet is cut off"):
        trace = Trace.from_pcap(written(tmp_path, gzip.compress(data[:-5])), source="192.0.2.1")
    assert trace.total_bytes == TO_FAR - 1428
    with pytest.warns(TraceWarning, match="last packet is cut off") as caught:
        assert Trace.from_pcap(written(tmp_path, packed[:-12]), source="192.0.2.1").total_bytes > 0
    assert Path(caught[0].filename) == Path(__file__)
    for broken in (packed[:-8] + bytes(8), packed[:12] + b"\xff" * 40 + packed[52:]):
        with pytest.raises(TraceError, match="the gzip file is damaged|no packets match"):
            Trace.from_pcap(written(tmp_path, broken))


def test_other_compressions_are_refused_with_the_remedy(tmp_path: Path) -> None:
    packed = {b"\x28\xb5\x2f\xfd": "zstd -d", b"\xfd7zXZ": "unxz", b"BZh9": "bunzip2"}
    for data, tool in packed.items():
        with pytest.raises(TraceError, match=f"unpack it by {tool}"):
            Trace.from_pcap(written(tmp_path, data + bytes(40)))
    with pytest.raises(TraceError, match="neither pcap nor pcapng"):
        Trace.from_pcap(written(tmp_path, gzip.compress(b"GIF89a")))


def test_a_packed_file_that_would_fill_the_time_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch._pcap._MAX_UNPACKED_BYTES", 1_000)
    records = b"".join(pcap(101, b"")[24:] for _ in range(20))
    path = written(tmp_path, gzip.compress(pcap(101, b"")[:24] + records))
    with pytest.raises(TraceError, match="are packed: cut it by editcap"):
        Trace.from_pcap(path)


@pytest.mark.parametrize("tags", [b"", b"\x81\x00\x00\x05"])
@pytest.mark.parametrize("is_v6", [False, True])
def test_pppoe(tmp_path: Path, tags: bytes, is_v6: bool) -> None:
    near, far = (bytes(15) + b"\x01", bytes(15) + b"\x02") if is_v6 else (NEAR, FAR)
    protocol = b"\x00\x57" if is_v6 else b"\x00\x21"
    head = bytes(12) + tags + b"\x88\x64" + b"\x11\x00\x00\x07\x02\x00" + protocol
    file = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1)
    control = bytes(12) + tags + b"\x88\x64\x11\x00\x00\x07\x00\x04\xc0\x21" + bytes(40)
    for at in (0, 1):
        packet = head + ip_packet(500, True, near, far)
        file += struct.pack("<IIII", at, 0, len(packet), len(packet) + 500) + packet
        file += struct.pack("<IIII", at, 9, len(control), len(control)) + control
    trace = Trace.from_pcap(written(tmp_path, file), port=7_000)
    assert trace.total_bytes == 2 * (548 if is_v6 else 528)


def test_packets_that_the_machine_merged_are_warned_of(tmp_path: Path) -> None:
    file = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101)
    for at in (0, 1):
        packet = ip_packet(60_000, True)
        file += struct.pack("<IIII", at, 0, len(packet), len(packet) + 60_000) + packet
    with pytest.warns(TraceWarning, match=r"2 packets are longer than 9216 bytes: .* merged"):
        Trace.from_pcap(written(tmp_path, file))


def test_packets_out_of_order_are_sorted(tmp_path: Path) -> None:
    plain = pcap(101, b"")
    records, at = [], 24
    while at < len(plain):
        length = 16 + struct.unpack("<I", plain[at + 8 : at + 12])[0]
        records.append(plain[at : at + length])
        at += length
    turned = written(tmp_path, plain[:24] + b"".join(reversed(records)))
    check(Trace.from_pcap(turned, destination="198.51.100.9"))


def test_a_real_capture_has_the_bytes_that_the_receiver_counted() -> None:
    trace = Trace.from_pcap(example("udp.pcap"), destination="127.0.0.1", port=17_900)
    received = anabranch.read_qlog(example("recv.sqlog")).packets
    counted = received.where(event="delivered", direction="forward")["bytes"]
    # The handshake and checks of addresses are no packets of the session.
    assert 0 <= trace.total_bytes - counted.sum() < 0.02 * trace.total_bytes
    assert trace.duration_s == pytest.approx(4.1, abs=0.5)


@pytest.mark.parametrize(
    ("data", "reason", "offset"),
    [
        (b"", "neither pcap nor pcapng", 0),
        (b"GIF89a", "neither pcap nor pcapng", 0),
        (pcap(1, ETHERNET)[:20], "header is cut off", 0),
        (pcap(1, ETHERNET)[:24], "no packets match", None),
        (pcap(147, b""), "link type 147 is none of Ethernet", 24),
        (pcap(1, ETHERNET)[:32] + b"\xff" * 8, "4294967295 bytes is too long", 24),
        (
            pcap(1, ETHERNET)[:24] + struct.pack("<IIII", 0, 0, 20, 1500) + ETHERNET + bytes(6),
            "only 20 bytes were captured",
            24,
        ),
        (pcapng()[:8] + b"what", "no byte-order magic", 0),
        (pcapng()[:28] + struct.pack("<III", 6, 8, 0), "a block of 8 bytes", 28),
        (pcapng()[:28] + block("<", 6, bytes(20)), "interface 0 is not described", 28),
        (pcapng()[:28] + block("<", 3, bytes(20)), "has no time", 28),
        (pcapng()[:28] + block("<", 1, bytes(4)), "interface is too short", 28),
        (pcapng("<", b"\x7f"), "too fine", 28),
    ],
)
def test_malformed_captures(tmp_path: Path, data: bytes, reason: str, offset: int | None) -> None:
    path = written(tmp_path, data)
    with pytest.raises(TraceError, match=reason) as caught:
        Trace.from_pcap(path)
    assert caught.value.file == str(path) and caught.value.offset == offset
    assert offset is None or f"at byte {offset}: " in str(caught.value)


def test_a_last_packet_that_is_cut_off_is_warned_of(tmp_path: Path) -> None:
    for data in (pcap(101, b""), pcapng()):
        with pytest.warns(TraceWarning, match="last packet is cut off") as caught:
            trace = Trace.from_pcap(written(tmp_path, data[:-5]), source="192.0.2.1")
        assert Path(caught[0].filename) == Path(__file__)
        assert trace.total_bytes == TO_FAR - 1428


@pytest.mark.parametrize("kind", ["pcap", "pcapng", "real", "gzip", "fragments"])
def test_mutated_captures_end_in_a_trace_or_an_error(tmp_path: Path, kind: str) -> None:
    whole = {
        "pcap": pcap(1, ETHERNET),
        "pcapng": pcapng(),
        "gzip": gzip.compress(pcapng(), mtime=0),
    }
    whole["fragments"] = fragmented(False, [1, 0, 2])
    original = whole.get(kind) or example("udp.pcap").read_bytes()[:3_000]
    dice = random.Random(f"captures {kind}")
    path = tmp_path / "x"
    outcomes = {"trace": 0, "error": 0}
    for _ in range(400):
        data = bytearray(original)
        for _ in range(dice.choice([1, 1, 2, 8])):
            at = dice.randrange(len(data))
            data[at] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)])
        if dice.random() < 0.3:
            del data[dice.randrange(len(data)) :]
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TraceWarning)
            try:
                port = 7_000 if kind == "fragments" else None
                assert Trace.from_pcap(path, port=port).total_bytes > 0
                outcomes["trace"] += 1
            except TraceError as error:
                assert str(path) in str(error)
                outcomes["error"] += 1
    assert min(outcomes.values()) > 5


def test_a_file_of_claims_takes_little_memory(tmp_path: Path) -> None:
    claims = struct.pack("<IIII", 0, 0, 1 << 20, 1 << 20)
    large = pcapng()[:28] + struct.pack("<III", 0xBAD, 0xFFFFFFF0, 0)
    for data in (pcap(1, b"")[:24] + claims, large):
        path = written(tmp_path, data)
        tracemalloc.start()
        with pytest.raises(TraceError), pytest.warns(TraceWarning):
            Trace.from_pcap(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1_000_000
