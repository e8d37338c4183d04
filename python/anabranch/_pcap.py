"""Packets of captures: pcap and pcapng, also within gzip, read within bounds on memory.

Sources: draft-ietf-opsawg-pcap (pcap), draft-ietf-opsawg-pcapng (pcapng), and the link types of
tcpdump.org/linktypes.html. Only headers are read. The rest of a packet is skipped.
"""

from __future__ import annotations

import gzip
import os
import struct
import warnings
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

from ._errors import TraceError, TraceWarning

#: Longest packet or block that is read. The longest of Linux has 512 KiB (BIG TCP).
MAX_PACKET_BYTES = 1 << 20
#: Bytes of a packet that are looked at: a link's header, IPv6 with extensions, and ports.
_HEAD_BYTES = 256
#: Most interfaces of a section.
_MAX_INTERFACES = 65_536

_PCAP = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000),
    b"\xa1\xb2\xc3\xd4": (">", 1_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
_SECTION = b"\x0a\x0d\x0d\x0a"
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 1, 2, 3, 6
_GZIP = b"\x1f\x8b"
#: Beginnings of other compressed files, and the programs that unpack them.
_PACKED = {
    b"\x28\xb5\x2f\xfd": "zstd -d",
    b"\xfd7zX": "unxz",
    b"BZh": "bunzip2",
    b"PK\x03\x04": "unzip",
}
#: Most bytes of a capture within gzip: a day of 1 Mbit/s, or a compressed file that is an attack.
_MAX_UNPACKED_BYTES = 16 << 30


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
    """A file that is read record by record. Places in gzip are those of the unpacked file."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile, path: str, size: int | None) -> None:
        self.file, self.path, self.size = file, path, size
        self.at = 0

    def read(self, count: int) -> bytes:
        """Return the next bytes; fewer at the end of the file."""
        found = self.file.read(count)
        self.at += len(found)
        return found

    def skip_to(self, at: int) -> bool:
        """Go to a place, and return whether the file reaches it."""
        reached = self.file.seek(at)
        self.at = at
        if self.size is None and at > _MAX_UNPACKED_BYTES:
            reason = (
                f"more than {_MAX_UNPACKED_BYTES >> 30} GiB are packed: cut it by editcap -A -B"
            )
            raise self.fail(reason, at)
        return reached == at if self.size is None else at <= self.size

    def fail(self, reason: str, offset: int) -> TraceError:
        """Return the error of a record at an offset."""
        return TraceError(reason, self.path, None, offset)

    def cut(self, offset: int, level: int = 7) -> None:
        """Warn of a last record that is incomplete, as after the end of a capturing program."""
        text = f"{self.path} at byte {offset}: the last packet is cut off"
        warnings.warn(text, TraceWarning, level)


def packets(path: str) -> Iterator[Captured]:
    """Yield the packets of a capture. Raises `TraceError` with the offset of a mistake."""
    with open(path, "rb") as file:
        magic = file.read(4)
        file.seek(0)
        if not magic.startswith(_GZIP):
            yield from _unpacked(_Reader(file, path, os.fstat(file.fileno()).st_size))
            return
        with gzip.open(file) as unpacked:
            reader = _Reader(unpacked, path, None)
            try:
                yield from _unpacked(reader)
            except EOFError:
                reader.cut(reader.at, 5)
            except (gzip.BadGzipFile, zlib.error) as error:
                raise reader.fail(f"the gzip file is damaged: {error}", reader.at) from None


def _unpacked(reader: _Reader) -> Iterator[Captured]:
    magic = reader.read(4)
    if magic in _PCAP:
        yield from _pcap(reader, *_PCAP[magic])
    elif magic == _SECTION:
        reader.skip_to(0)
        yield from _pcapng(reader)
    else:
        found = next((tool for start, tool in _PACKED.items() if magic.startswith(start)), None)
        remedy = f": unpack it by {found}" if found else ", also within gzip"
        raise reader.fail(f"this is neither pcap nor pcapng{remedy}", 0)


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
        body = b""
        if kind in (_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET) and length >= 16:
            # The third word of the start is the body's first, or the length again.
            count = min(length - 16, 32 + _HEAD_BYTES if kind != _INTERFACE else MAX_PACKET_BYTES)
            body = start[8:] + reader.read(count)
        if not reader.skip_to(offset + length):
            reader.cut(offset)
            return
        if kind in (_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET):
            if kind == _INTERFACE:
                interfaces.append(_interface(reader, body, order, offset))
                if len(interfaces) > _MAX_INTERFACES:
                    raise reader.fail("there are too many interfaces", offset)
            elif kind == _SIMPLE_PACKET:
                raise reader.fail("a simple packet block has no time", offset)
            else:
                yield _packet(reader, body, order, offset, length, kind, interfaces)


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
