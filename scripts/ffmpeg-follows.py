#!/usr/bin/env python3
"""Runs an ffmpeg that follows the links: it is started again when its bitrate no longer fits.

    anabranch send … --encoder-range 500kbit/s..6Mbit/s --target-to - udp://127.0.0.1:5000 |
        scripts/ffmpeg-follows.py udp://127.0.0.1:5000 -f v4l2 -i /dev/video0

Reads the lines of --target-to. The arguments are the destination of MPEG-TS and ffmpeg's input.
A restart costs about 0.3 s of picture, so small changes are not followed: see LOWER and HIGHER.
An encoder whose bitrate can change while it runs does not need this (docs/operations.md).
"""

import json
import signal
import subprocess
import sys
import threading
import time

# The encoder is restarted if the target over its bitrate is below LOWER or above HIGHER.
LOWER, HIGHER = 0.95, 1.5
# Seconds after a start before growth and before drops are followed.
SETTLES, DROPS_SETTLE = 5.0, 1.0
# Share of the target that is left by audio, MPEG-TS and overshoots of the rate control.
SHARE = 0.85

target = None
is_over = threading.Event()


def read_targets():
    global target
    for line in sys.stdin:
        try:
            target = json.loads(line).get("target_bps", target)
        except ValueError:
            pass
    is_over.set()


def start(bitrate, began_at, output, source):
    kbit = f"{int(bitrate / 1000)}k"
    # The timestamps continue those of the previous encoder.
    offset = f"{time.monotonic() - began_at:.3f}"
    rate = ["-b:v", kbit, "-maxrate", kbit, "-bufsize", f"{int(bitrate / 1000 / 12)}k"]
    codec = ["-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-pix_fmt", "yuv420p"]
    refresh = ["-g", "50", "-x264-params", "intra-refresh=1"]
    way = ["-output_ts_offset", offset, "-f", "mpegts", "-flush_packets", "1", output]
    command = ["ffmpeg", "-nostdin", "-v", "error", *source, *codec, *rate, *refresh, *way]
    print(f"encoder at {kbit}bit/s", file=sys.stderr, flush=True)
    return subprocess.Popen(command)


def main():
    output, source = sys.argv[1], sys.argv[2:]
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    threading.Thread(target=read_targets, daemon=True).start()
    began_at = time.monotonic()
    encoder, bitrate, started_at = None, 0.0, 0.0
    while not is_over.wait(0.05):
        if target is None:
            continue
        wanted, now = target * SHARE, time.monotonic()
        falls = wanted < bitrate * LOWER and now > started_at + DROPS_SETTLE
        grows = wanted > bitrate * HIGHER and now > started_at + SETTLES
        if encoder is not None and encoder.poll() is not None:
            return encoder.returncode
        if encoder is None or falls or grows:
            if encoder is not None:
                encoder.terminate()
                encoder.wait()
                # Growth beyond twice the present bitrate takes several steps.
                wanted = min(wanted, 2 * bitrate)
            bitrate, started_at = wanted, now
            encoder = start(bitrate, began_at, output, source)
    if encoder is not None:
        encoder.terminate()
        encoder.wait()
    return 0


sys.exit(main())
