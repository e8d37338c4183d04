"""Arrivals of packets in captures: pcap and pcapng, read within bounds on memory.

Sources: draft-ietf-opsawg-pcap (pcap), draft-ietf-opsawg-pcapng (pcapng), and the link types of
tcpdump.org/linktypes.html. Only headers are read. The rest of a packet is skipped.
"""

from __future__ import annotations

import ipaddress
import os
import struct
import warnings
from array import array
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from . import _trace_files as files
from ._errors import TraceError, TraceWarning
from ._trace_files import Pieces

#: Longest packet or block that is read. The longest of Linux has 512 KiB (BIG TCP).
MAX_PACKET_BYTES = 1 << 20
#: Bytes of a packet that are looked at: a link's header, IPv6 with extensions, and ports.
_HEAD_BYTES = 256
#: Most interfaces of a section.
_MAX_INTERFACES = 65_536
#: A packet of a link has at most the 9,216 bytes of jumbo frames; longer ones were merged.
_LONGEST_IP_BYTES = 9_216

_PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000),
    b"\xa1\xb2\xc3\xd4": (">", 1_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_SECTION = b"\x0a\x0d\x0d\x0a"
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 1, 2, 3, 6
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLAN = (0x8100, 0x88A8)
#: Protocols whose headers begin with two ports: TCP, UDP, DCCP, SCTP.
_WITH_PORTS = (6, 17, 33, 132)
#: Extension headers of IPv6 with a length: hop-by-hop, routing, destination options.
_EXTENSIONS = (0, 43, 60)


class Captured(NamedTuple):
    """A packet of a capture."""

    #: Place of its record in the file.
    offset: int
    time_ns: int
    link_type: int
    #: First bytes, from the link's header on.
    head: bytes
    #: Length on the link.
    length: int


class _Reader:
    """A file that is read record by record."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self.file, self.path = file, path
        self.size = os.fstat(file.fileno()).st_size
        self.at = 0

    def read(self, count: int) -> bytes:
        """Return the next bytes; fewer at the end of the file."""
        found = self.file.read(count)
        self.at += len(found)
        return found

    def skip_to(self, at: int) -> bool:
        """Go to a place, and return whether the file reaches it."""
        self.file.seek(at)
        self.at = at
        return at <= self.size

    def fail(self, reason: str, offset: int) -> TraceError:
        """Return the error of a record at an offset."""
        return TraceError(reason, self.path, None, offset)

    def cut(self, offset: int) -> None:
        """Warn of a last record that is incomplete, as after the end of a capturing program."""
        text = f"{self.path} at byte {offset}: the last packet is cut off"
        warnings.warn(text, TraceWarning, 6)


def packets(path: str) -> Iterator[Captured]:
    """Yield the packets of a capture. Raises `TraceError` with the offset of a mistake."""
    with open(path, "rb") as file:
        reader = _Reader(file, path)
        magic = reader.read(4)
        if magic in _PCAP:
            yield from _pcap(reader, *_PCAP[magic])
        elif magic == _SECTION:
            reader.skip_to(0)
            yield from _pcapng(reader)
        else:
            raise reader.fail("this is neither pcap nor pcapng", 0)


def _pcap(reader: _Reader, order: str, unit_ns: int) -> Iterator[Captured]:
    head = reader.read(20)
    if len(head) < 20:
        raise reader.fail("the header is cut off", 0)
    link_type = int(struct.unpack(order + "I", head[16:])[0]) & 0xFFFF
    while True:
        offset = reader.at
        record = reader.read(16)
        if len(record) < 16:
            if record:
                reader.cut(offset)
            return
        seconds, fraction, captured, length = struct.unpack(order + "IIII", record)
        if captured > MAX_PACKET_BYTES or length > MAX_PACKET_BYTES:
            most = max(captured, length)
            raise reader.fail(f"a packet of {most} bytes is too long", offset)
        found = reader.read(min(captured, _HEAD_BYTES))
        if not reader.skip_to(offset + 16 + captured):
            reader.cut(offset)
            return
        time_ns = seconds * 1_000_000_000 + fraction * unit_ns
        yield Captured(offset, time_ns, link_type, found, length)


class _Interface(NamedTuple):
    link_type: int
    #: Ticks per second, and seconds to add.
    resolution: int
    offset_s: int


def _pcapng(reader: _Reader) -> Iterator[Captured]:
    order = "<"
    interfaces: list[_Interface] = []
    while True:
        offset = reader.at
        start = reader.read(12)
        if len(start) < 12:
            if start:
                reader.cut(offset)
            return
        if start[:4] == _SECTION:
            order, interfaces = _order_of(reader, start[8:], offset), []
        kind, length = struct.unpack(order + "II", start[:8])
        if length % 4 or length < 12:
            raise reader.fail(f"a block of {length} bytes is none of pcapng", offset)
        if offset + length > reader.size:
            reader.cut(offset)
            return
        if kind in (_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET):
            # The third word of the start is the body's first, or the length again.
            count = min(length - 16, 32 + _HEAD_BYTES if kind != _INTERFACE else MAX_PACKET_BYTES)
            body = start[8:] + reader.read(count) if length >= 16 else b""
            if kind == _INTERFACE:
                interfaces.append(_interface(reader, body, order, offset))
                if len(interfaces) > _MAX_INTERFACES:
                    raise reader.fail("there are too many interfaces", offset)
            elif kind == _SIMPLE_PACKET:
                raise reader.fail("a simple packet block has no time", offset)
            else:
                yield _packet(reader, body, order, offset, length, kind, interfaces)
        reader.skip_to(offset + length)


def _order_of(reader: _Reader, word: bytes, offset: int) -> str:
    if word == b"\x4d\x3c\x2b\x1a":
        return "<"
    if word == b"\x1a\x2b\x3c\x4d":
        return ">"
    raise reader.fail("the section has no byte-order magic", offset)


def _interface(reader: _Reader, body: bytes, order: str, offset: int) -> _Interface:
    if len(body) < 8:
        raise reader.fail("the block of an interface is too short", offset)
    link_type = struct.unpack(order + "H", body[:2])[0]
    resolution, offset_s, at = 1_000_000, 0, 8
    while at + 4 <= len(body):
        code, length = struct.unpack(order + "HH", body[at : at + 4])
        value = body[at + 4 : at + 4 + length]
        if code == 0 or len(value) < length:
            break
        if code == 9 and length == 1:
            exponent = value[0] & 0x7F
            if exponent > (63 if value[0] & 0x80 else 19):
                raise reader.fail("the resolution of times is too fine", offset)
            resolution = (2 if value[0] & 0x80 else 10) ** exponent
        if code == 14 and length == 8:
            offset_s = struct.unpack(order + "q", value)[0]
        at += 4 + (length + 3) // 4 * 4
    return _Interface(link_type, resolution, offset_s)


def _packet(
    reader: _Reader,
    body: bytes,
    order: str,
    offset: int,
    block_bytes: int,
    kind: int,
    interfaces: list[_Interface],
) -> Captured:
    if len(body) < 20:
        raise reader.fail("the block of a packet is too short", offset)
    number, high, low, captured, length = struct.unpack(order + "IIIII", body[:20])
    if kind == _OLD_PACKET:
        number = struct.unpack(order + "H", body[:2])[0]
    if number >= len(interfaces):
        raise reader.fail(f"interface {number} is not described", offset)
    if captured > block_bytes - 32 or length > MAX_PACKET_BYTES:
        raise reader.fail(f"a packet of {max(captured, length)} bytes is too long", offset)
    own = interfaces[number]
    ticks = high << 32 | low
    time_ns = ticks * 1_000_000_000 // own.resolution + own.offset_s * 1_000_000_000
    head = body[20 : 20 + min(captured, _HEAD_BYTES)]
    return Captured(offset, time_ns, own.link_type, head, length)


class Ip(NamedTuple):
    """An IP packet: its length, addresses, and ports if it has some."""

    length: int
    source: bytes
    destination: bytes
    ports: tuple[int, int] | None


def _link(packet: Captured, path: str) -> tuple[int, int] | None:
    """Return the length of the link's header, and the protocol; None for a frame without one."""
    head, kind = packet.head, packet.link_type
    if kind == 1:
        at = 12
        while len(head) >= at + 2:
            protocol = int.from_bytes(head[at : at + 2], "big")
            if protocol not in _VLAN:
                return at + 2, protocol
            at += 4
        return None
    if kind in (12, 14, 101, 228, 229):
        return 0, _version(head, 0)
    if kind in (0, 108):
        # The family of addresses differs between systems.
        return 4, _version(head, 4)
    if kind == 9:
        return 2, {0x21: _IPV4, 0x57: _IPV6}.get(int.from_bytes(head[:2], "big"), 0)
    if kind == 113:
        return 16, int.from_bytes(head[14:16], "big")
    if kind == 276:
        return 20, int.from_bytes(head[0:2], "big")
    known = "Ethernet, raw IP, PPP, loopback and Linux's cooked mode"
    raise TraceError(f"link type {kind} is none of {known}", path, None, packet.offset)


def _version(head: bytes, at: int) -> int:
    version = head[at] >> 4 if len(head) > at else 0
    return {4: _IPV4, 6: _IPV6}.get(version, 0)


def ip_of(packet: Captured, path: str) -> Ip | None:
    """Return the IP packet of a captured one; None for other protocols.

    Raises `TraceError` for an unknown link, and for a capture that is cut before the addresses.
    """
    found = _link(packet, path)
    if found is None or found[1] not in (_IPV4, _IPV6):
        return None
    at, is_v4 = found[0], found[1] == _IPV4
    ip = packet.head[at:]
    if len(ip) < (20 if is_v4 else 40):
        if packet.length - at < (20 if is_v4 else 40):
            return None
        reason = f"only {len(packet.head)} bytes were captured: addresses need 96 (tcpdump -s 96)"
        raise TraceError(reason, path, None, packet.offset)
    # A sender's own capture may have no length, before its interface cuts the segment.
    stated = int.from_bytes(ip[2:4] if is_v4 else ip[4:6], "big") + (0 if is_v4 else 40)
    is_stated = stated > (0 if is_v4 else 40)
    length = min(stated, packet.length - at) if is_stated else packet.length - at
    if length < 1:
        return None
    if is_v4:
        is_first = int.from_bytes(ip[6:8], "big") & 0x1FFF == 0
        ports = _ports(ip[9], ip[4 * (ip[0] & 15) :]) if is_first else None
        return Ip(length, ip[12:16], ip[16:20], ports)
    return Ip(length, ip[8:24], ip[24:40], _ports_of_v6(ip))


def _ports_of_v6(ip: bytes) -> tuple[int, int] | None:
    protocol, at = ip[6], 40
    while protocol in _EXTENSIONS and len(ip) > at + 1:
        protocol, at = ip[at], at + 8 * (ip[at + 1] + 1)
    return _ports(protocol, ip[at:])


def _ports(protocol: int, rest: bytes) -> tuple[int, int] | None:
    if protocol not in _WITH_PORTS or len(rest) < 4:
        return None
    return int.from_bytes(rest[:2], "big"), int.from_bytes(rest[2:4], "big")


def arrivals(path: str, source: str | None, destination: str | None, port: int | None) -> Pieces:
    """Return the bytes of IP packets that match, each when it was captured."""
    is_from, is_to = _matcher("source", source), _matcher("destination", destination)
    times, sizes = array("q"), array("d")
    begin: int | None = None
    merged = 0
    for number, packet in enumerate(packets(path), 1):
        if number > files.MAX_ROWS:
            reason = f"there are more than {files.MAX_ROWS} packets"
            raise TraceError(reason, path, None, packet.offset)
        ip = ip_of(packet, path)
        if ip is None or not (is_from(ip.source) and is_to(ip.destination)):
            continue
        if port is not None and (ip.ports is None or port not in ip.ports):
            continue
        begin = packet.time_ns if begin is None else begin
        if abs(packet.time_ns - begin) > 1e6 * files.MAX_MS:
            reason = "the packet is more than 49.7 days from the first one"
            raise TraceError(reason, path, None, packet.offset)
        times.append(packet.time_ns - begin)
        sizes.append(ip.length)
        merged += ip.length > _LONGEST_IP_BYTES
    if merged:
        text = f"{merged} packets are longer than {_LONGEST_IP_BYTES} bytes: the machine merged "
        text += "them (GRO, TSO), and their times are not those of the link"
        warnings.warn(text, TraceWarning, 4)
    return _sorted(times, sizes, path)


def _sorted(times: array[int], sizes: array[float], path: str) -> Pieces:
    """Return packets in the order of their times: cores of a machine capture out of order."""
    if not times or min(times) == max(times):
        raise TraceError("no packets match over a time above 0", path)
    at = np.frombuffer(times, dtype=np.int64)
    order = np.argsort(at, kind="stable")
    ordered = (at[order] - at[order[0]]) / 1e6
    return files.events(ordered, np.frombuffer(sizes)[order])


def _matcher(name: str, text: str | None) -> Callable[[bytes], bool]:
    """Return whether an address is that of a text: an address, or a network such as 10.0.0.0/8."""
    if text is None:
        return lambda _: True
    try:
        network: Any = ipaddress.ip_network(text, strict=False)
    except ValueError:
        reason = f"{name}: {text!r} is no address or network such as 192.0.2.1 or 10.0.0.0/8"
        raise ValueError(reason) from None
    known: dict[bytes, bool] = {}

    def matches(address: bytes) -> bool:
        if address not in known:
            if len(known) > 100_000:
                known.clear()
            known[address] = ipaddress.ip_address(address) in network
        return known[address]

    return matches
