#!/usr/bin/env python3
"""Checks programs for macOS on Apple silicon as far as another system can.

    scripts/check-mach.py OLDEST PROGRAM...

Each must be a program of 64 bits for ARM that runs from the version OLDEST on, as 11.0, needs
libraries of the system alone, and has a signature whose hashes are those of its pages. Apple
silicon ends a program without one. The formats are those of Apple's `mach-o/loader.h` and
`kern/cs_blobs.h`.
"""

import hashlib
import struct
import sys
from pathlib import Path

MAGIC_64, CPU_ARM64, FILE_EXECUTE = 0xFEEDFACF, 0x0100000C, 2
LOAD_DYLIBS = {0xC, 0x80000018, 0x8000001F}  # plainly, weakly, and handed on
CODE_SIGNATURE, BUILD_VERSION = 0x1D, 0x32
PLATFORM_MACOS = 1
SIGNATURE_MAGIC, DIRECTORY_MAGIC = 0xFADE0CC0, 0xFADE0C02
SHA256 = 2


class Fault(Exception):
    """Something that keeps the program from running."""


def main() -> None:
    oldest = tuple(int(part) for part in sys.argv[1].split("."))
    for name in sys.argv[2:]:
        try:
            check(Path(name).read_bytes(), oldest)
        except Fault as fault:
            sys.exit(f"check-mach: {name} {fault}")


def check(program: bytes, oldest: tuple[int, ...]) -> None:
    magic, cpu, _, kind, count = struct.unpack_from("<5I", program)
    if (magic, cpu, kind) != (MAGIC_64, CPU_ARM64, FILE_EXECUTE):
        raise Fault("is no program for macOS on Apple silicon")
    found = set()
    offset = 32
    for _ in range(count):
        command, size = struct.unpack_from("<2I", program, offset)
        found.add(command)
        if command in LOAD_DYLIBS:
            check_library(program[offset : offset + size])
        elif command == BUILD_VERSION:
            check_version(program, offset, oldest)
        elif command == CODE_SIGNATURE:
            (start,) = struct.unpack_from("<I", program, offset + 8)
            check_signature(program, start)
        offset += size
    if BUILD_VERSION not in found or CODE_SIGNATURE not in found:
        raise Fault("lacks its version or its signature")


def check_library(command: bytes) -> None:
    (start,) = struct.unpack_from("<I", command, 8)
    library = command[start:].split(b"\0")[0].decode()
    if not library.startswith(("/usr/lib/", "/System/Library/")):
        raise Fault(f"needs {library}, which macOS lacks")


def check_version(program: bytes, offset: int, oldest: tuple[int, ...]) -> None:
    platform, version = struct.unpack_from("<2I", program, offset + 8)
    needed = (version >> 16, version >> 8 & 0xFF)
    if platform != PLATFORM_MACOS or needed > oldest:
        raise Fault(f"needs version {needed[0]}.{needed[1]} of the platform {platform}")


def check_signature(program: bytes, start: int) -> None:
    magic, _, count = struct.unpack_from(">3I", program, start)
    if magic != SIGNATURE_MAGIC:
        raise Fault("has no signature")
    for index in range(count):
        _, offset = struct.unpack_from(">2I", program, start + 12 + 8 * index)
        (kind,) = struct.unpack_from(">I", program, start + offset)
        if kind == DIRECTORY_MAGIC:
            check_pages(program, start + offset)
            return
    raise Fault("has a signature without hashes")


def check_pages(program: bytes, directory: int) -> None:
    hashes, _, _, count, end = struct.unpack_from(">5I", program, directory + 16)
    hash_bytes, hash_type, _, page_bits = struct.unpack_from("4B", program, directory + 36)
    if hash_type != SHA256:
        raise Fault(f"has hashes of the kind {hash_type}")
    for page in range(count):
        begin = page << page_bits
        content = program[begin : min(begin + (1 << page_bits), end)]
        place = directory + hashes + page * hash_bytes
        if hashlib.sha256(content).digest() != program[place : place + hash_bytes]:
            raise Fault(f"is damaged: page {page} differs from its signature")


main()
