"""Sends MPEG-TS by ctypes: to our receiver, or to one of SRTLA.

    python3 send_ts.py LIBRARY FILE ADDRESS PATH...

ADDRESS is `srtla://HOST:PORT?streamid=...` or a link of `anabranch recv --pair`, and each PATH an
interface or a local address. The stream leaves at 4 Mbit/s.
"""

import ctypes
import sys
import time

BYTES_PER_SECOND = 500_000


def main(path, file, address, *paths):
    """Sends the file."""
    library = ctypes.CDLL(path)
    library.ab_last_error.restype = library.ab_sender_stats_json.restype = ctypes.c_char_p
    library.ab_sender_send_ts.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]

    def check(code):
        if code < 0:
            sys.exit(f"error {code}: {library.ab_last_error().decode()}")

    sender = ctypes.c_void_p()
    via = ", ".join(f"'{path}'" for path in paths)
    config = f"to = '{address}'\nvia = [{via}]\n"
    check(library.ab_sender_new(config.encode(), ctypes.byref(sender)))
    check(library.ab_sender_start(sender))
    check(library.ab_sender_wait_connected(sender, 20_000))
    print("connected", flush=True)
    with open(file, "rb") as stream:
        while piece := stream.read(10_000):
            check(library.ab_sender_send_ts(sender, piece, len(piece)))
            time.sleep(len(piece) / BYTES_PER_SECOND)
    check(library.ab_sender_close(sender, 10_000))
    library.ab_sender_stats_json.argtypes = library.ab_sender_free.argtypes = [ctypes.c_void_p]
    print(library.ab_sender_stats_json(sender).decode())
    library.ab_sender_free(sender)
    print("sent", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
