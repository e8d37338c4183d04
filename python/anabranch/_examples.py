"""Files of a real session that come with the package."""

from __future__ import annotations

from pathlib import Path

from . import _native
from ._errors import UnknownName

_FOLDER = Path(__file__).parent / "examples"


def example(name: str) -> Path:
    """Return the path of a file of a real session of 4 s over two emulated links.

    `send.json` and `recv.json` are statistics, `send.sqlog` and `recv.sqlog` logs of packets,
    `udp.pcap` a capture at the receiver, and `session.toml` is the scenario of the links.

    Raises `UnknownName` for a file that is not there.

    >>> import anabranch
    >>> anabranch.Scenario.load(anabranch.testing.example("session.toml")).link_names
    ['lte', 'lte-return', 'wifi', 'wifi-return']
    """
    known = sorted(path.name for path in _FOLDER.iterdir())
    if name not in known:
        near = _native.nearest_name(name, known)
        text = f"no example is called {name!r}; there are {', '.join(known)}"
        raise UnknownName(text, known, near)
    return _FOLDER / name
