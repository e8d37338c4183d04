#!/usr/bin/env python3
"""A camera for tests of live pictures: raw pictures (640 by 360, 4:2:0) on standard output at 25 a
second, with the wall clock burnt into their upper edge.

The strip has 40 cells of 16 by 16 pixels: 32 bits of milliseconds since 1970, the most significant
first, and a check value of 8 bits. Below it, a bar moves so that pictures differ.

Usage: whep-camera.py SECONDS
"""

import sys
import time

WIDTH, HEIGHT, RATE = 640, 360, 25
CELL, CELLS = 16, 40
WHITE, BLACK = b"\xeb", b"\x10"


def check_value(number: int) -> int:
    """CRC-8 with the polynomial x^8 + x^2 + x + 1, as `anabranch-video` burns it in."""
    crc = 0xA7
    for byte in number.to_bytes(4, "big"):
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ 0x07 if crc & 0x80 else crc << 1) & 0xFF
    return crc


def strip(number: int) -> bytes:
    bits = number << 8 | check_value(number)
    cells = (bits >> (CELLS - 1 - cell) & 1 for cell in range(CELLS))
    return b"".join((WHITE if cell else BLACK) * CELL for cell in cells) * CELL


def main() -> None:
    seconds = float(sys.argv[1])
    rows = HEIGHT - CELL
    chroma = b"\x80" * (WIDTH * HEIGHT // 2)
    begin = time.time()
    for number in range(int(seconds * RATE)):
        pause = begin + number / RATE - time.time()
        if pause > 0:
            time.sleep(pause)
        at = number * 8 % (WIDTH - 64)
        row = b"\x40" * at + b"\xa0" * 64 + b"\x40" * (WIDTH - 64 - at)
        now = int(time.time() * 1000) & 0xFFFFFFFF
        try:
            sys.stdout.buffer.write(strip(now) + row * rows + chroma)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            return


if __name__ == "__main__":
    main()
