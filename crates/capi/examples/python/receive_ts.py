"""Receives MPEG-TS by ctypes: of a sender of SRTLA or SRT.

    python3 receive_ts.py LIBRARY FILE ADDRESS

ADDRESS is `srtla://ADDR:PORT?streamid=...` or `srt://ADDR:PORT?streamid=...`. The program prints
the events and the figures of the session, and ends with the session.
"""

import ctypes
import sys

ENDED = -8


class Frame(ctypes.Structure):
    """ab_frame of anabranch.h."""

    _fields_ = [
        ("bytes", ctypes.POINTER(ctypes.c_uint8)),
        ("count", ctypes.c_size_t),
        ("number", ctypes.c_uint64),
        ("captured_us", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
    ]


ON_EVENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)


@ON_EVENT
def print_event(_context, text):
    """Prints an event."""
    print(text.decode(), flush=True)
    return 0


def load(path):
    """Returns the library with the types of the functions that are used here."""
    library = ctypes.CDLL(path)
    pointer, number = ctypes.c_void_p, ctypes.c_uint32
    library.ab_receiver_start.argtypes = library.ab_receiver_free.argtypes = [pointer]
    library.ab_receiver_accept.argtypes = [pointer, number, ctypes.POINTER(pointer)]
    library.ab_receiver_dispatch.argtypes = [pointer, number, ON_EVENT, pointer]
    library.ab_session_next_frame.argtypes = [pointer, number, ctypes.POINTER(Frame)]
    library.ab_session_free.argtypes = [pointer]
    for name in "ab_last_error", "ab_session_peer", "ab_session_stats_json":
        getattr(library, name).restype = ctypes.c_char_p
    library.ab_session_peer.argtypes = library.ab_session_stats_json.argtypes = [pointer]
    return library


def main(path, file, address):
    """Receives one session."""
    library = load(path)

    def check(code):
        if code < 0:
            sys.exit(f"error {code}: {library.ab_last_error().decode()}")
        return code

    receiver, session, frame = ctypes.c_void_p(), ctypes.c_void_p(), Frame()
    check(library.ab_receiver_new(address.encode(), ctypes.byref(receiver)))
    check(library.ab_receiver_start(receiver))
    print("listening", flush=True)
    while check(library.ab_receiver_accept(receiver, 1_000, ctypes.byref(session))) == 0:
        pass
    print("a session of", library.ab_session_peer(session).decode(), flush=True)
    with open(file, "wb") as stream:
        while (code := library.ab_session_next_frame(session, 1_000, ctypes.byref(frame))) != ENDED:
            if check(code) == 1:
                stream.write(ctypes.string_at(frame.bytes, frame.count))
            check(library.ab_receiver_dispatch(receiver, 0, print_event, None))
    check(library.ab_receiver_dispatch(receiver, 1_000, print_event, None))
    print(library.ab_session_stats_json(session).decode())
    library.ab_session_free(session)
    library.ab_receiver_free(receiver)
    print("received", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
