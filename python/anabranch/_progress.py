"""Progress of long calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

#: `auto`: a bar in terminals and notebooks, if tqdm is installed. True: a bar, or `MissingExtra`.
#: A function gets the simulated seconds since its last call.
Progress: TypeAlias = "Literal['auto'] | bool | Callable[[float], object]"


class Bar:
    """A progress bar of simulated seconds, or a function, or nothing."""

    def __init__(self, progress: Progress, total_s: float) -> None:
        self._bar: Any = None
        self.call: Callable[[float], object] | None = None
        if callable(progress):
            self.call = progress
        elif progress is True or (progress == "auto" and _is_watched()):
            self._bar = _bar(total_s, is_needed=progress is True)
            self.call = None if self._bar is None else self._bar.update

    def close(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()


def _is_watched() -> bool:
    is_notebook = "ipykernel" in sys.modules
    return is_notebook or sys.stderr is not None and sys.stderr.isatty()


def _bar(total_s: float, is_needed: bool) -> Any:
    from ._errors import MissingExtra
    from ._extras import load

    try:
        tqdm = load("tqdm.auto").tqdm
    except MissingExtra:
        if is_needed:
            raise
        return None
    form = "{l_bar}{bar}| {n:.0f}/{total:.0f} simulated s [{elapsed}<{remaining}]"
    return tqdm(total=total_s, unit="s", bar_format=form, leave=False)
