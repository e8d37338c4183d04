"""Sends frames to itself over two sockets of loopback, by ctypes alone.

    python3 loopback.py [LIBRARY]

LIBRARY is libanabranch.so.0 by default.
"""

import ctypes
import json
import socket
import sys

NOW = -(2**63)
KEY = 1


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


def load(path):
    """Returns the library with the types of the functions that are used here."""
    library = ctypes.CDLL(path)
    texts = ["ab_last_error", "ab_generate_key", "ab_public_key", "ab_receiver_local_address"]
    for name in texts + ["ab_sender_stats_json", "ab_session_peer"]:
        getattr(library, name).restype = ctypes.c_char_p
    pointer, number = ctypes.c_void_p, ctypes.c_uint32
    for name, types in {
        "ab_public_key": [ctypes.c_char_p],
        "ab_receiver_local_address": [pointer],
        "ab_sender_stats_json": [pointer],
        "ab_session_peer": [pointer],
        "ab_sender_add_socket": [pointer, ctypes.c_char_p, ctypes.c_int],
        "ab_sender_start": [pointer],
        "ab_sender_wait_connected": [pointer, number],
        "ab_sender_send_frame": [pointer, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int64, number],
        "ab_sender_dispatch": [pointer, number, ON_EVENT, pointer],
        "ab_sender_close": [pointer, number],
        "ab_sender_free": [pointer],
        "ab_receiver_start": [pointer],
        "ab_receiver_accept": [pointer, number, ctypes.POINTER(pointer)],
        "ab_receiver_free": [pointer],
        "ab_session_next_frame": [pointer, number, ctypes.POINTER(Frame)],
        "ab_session_free": [pointer],
    }.items():
        getattr(library, name).argtypes = types
    return library


def main(path="libanabranch.so.0"):
    """Sends ten frames and compares them."""
    library = load(path)

    def check(code):
        if code < 0:
            sys.exit(f"error {code}: {library.ab_last_error().decode()}")
        return code

    def make(function, config):
        made = ctypes.c_void_p()
        check(function(config.encode(), ctypes.byref(made)))
        return made

    camera, studio = (library.ab_generate_key().decode() for _ in range(2))
    names = [library.ab_public_key(key.encode()).decode() for key in (camera, studio)]
    config = f"listen = '127.0.0.1:0'\nkey = '{studio}'\nallow = '{names[0]}'"
    receiver = make(library.ab_receiver_new, config)
    check(library.ab_receiver_start(receiver))
    address = library.ab_receiver_local_address(receiver).decode()

    config = f"to = '{address}'\nkey = '{camera}'\npeer = '{names[1]}'\nvia = []"
    sender = make(library.ab_sender_new, config)
    for name in (b"first", b"second"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
            made.bind(("127.0.0.1", 0))
            # The library has a descriptor of its own from here on.
            check(library.ab_sender_add_socket(sender, name, made.fileno()))
    check(library.ab_sender_start(sender))
    check(library.ab_sender_wait_connected(sender, 10_000))
    session = ctypes.c_void_p()
    assert check(library.ab_receiver_accept(receiver, 10_000, ctypes.byref(session))) == 1
    assert library.ab_session_peer(session).decode() == names[0]

    for number in range(10):
        picture = bytes([number]) * 20_000
        check(library.ab_sender_send_frame(sender, picture, len(picture), NOW, KEY))
        frame = Frame()
        assert check(library.ab_session_next_frame(session, 10_000, ctypes.byref(frame))) == 1
        assert ctypes.string_at(frame.bytes, frame.count) == picture
        assert frame.number == number

    events = []

    @ON_EVENT
    def on_event(_context, text):
        events.append(json.loads(text)["event"])
        return 0

    check(library.ab_sender_close(sender, 10_000))
    check(library.ab_sender_dispatch(sender, 100, on_event, None))
    assert events[-1] == "ended", events
    paths = json.loads(library.ab_sender_stats_json(sender))["paths"]
    assert [path["name"] for path in paths] == ["first", "second"]
    library.ab_session_free(session)
    library.ab_receiver_free(receiver)
    library.ab_sender_free(sender)
    print("10 frames came back equal")


if __name__ == "__main__":
    main(*sys.argv[1:])
