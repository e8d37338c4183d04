"""Looks of plots: sizes of a journal's columns, and colours for all readers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

from ._extras import load

#: Width of a figure: one column of a page, or both.
Style: TypeAlias = Literal["column", "page"]
#: Coordinates of a curve.
Curve: TypeAlias = "Sequence[float] | NDArray[Any]"
#: Curves of others by label: x and y, in the units of the axes.
Overlay: TypeAlias = Mapping[str, tuple["Curve", "Curve"]]

#: Sizes in inches. The widths are those of IEEE journals: 3.5 in (one column), 7.16 in (two).
SIZES = {"column": (3.5, 2.3), "page": (7.16, 3.0)}
#: Colours that people with any form of colour blindness tell apart: M. Okabe and K. Ito, Color
#: Universal Design, 2008, as in B. Wong, Nature Methods 8:441, 2011. Its yellow is left out, since
#: it is faint on white; black is for curves of others.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
#: Lines and marks also differ in form, for prints without colour.
LINES = ("-", "--", "-.", ":")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++")
#: Colour map of heat maps, made for colour-blind readers: J. Nuñez et al., PLoS ONE 13(7), 2018.
COLOUR_MAP = "cividis"

#: Most columns of a legend.
_MAX_COLUMNS = 4

_LOOK = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "hatch.linewidth": 0.4,
}


@contextmanager
def drawing(ax: Any, style: Style) -> Iterator[Any]:
    """Yield matplotlib axes to draw on: `ax`, or those of a new figure in the style's size.

    Raises `MissingExtra` without matplotlib, and `ValueError` for an unknown style.
    """
    if style not in SIZES:
        raise ValueError(f"style: {style!r} is none of {', '.join(SIZES)}")
    pyplot = load("matplotlib.pyplot")
    with _look(pyplot.rcParams):
        if ax is not None:
            yield ax
            return
        figure, ax = pyplot.subplots(figsize=SIZES[style], layout="constrained")
        yield ax
        shown = ax.get_legend()
        if shown is not None:
            # The legend takes no room from the axes.
            width, height = SIZES[style]
            figure.set_size_inches(width, height + shown.get_window_extent().height / figure.dpi)


@contextmanager
def _look(params: Any) -> Iterator[None]:
    """Set the parameters of `_LOOK`, and no others, for a while.

    `pyplot.rc_context` would also take back `interactive`, which the backend of notebooks sets when
    the first figure loads it. Without it, the backend shows no later figure.
    """
    before = {name: params[name] for name in _LOOK}
    params.update(_LOOK)
    try:
        yield
    finally:
        params.update(before)


def line_look(number: int) -> dict[str, Any]:
    """Return colour and line of the curve with this number; all of the first 24 differ."""
    own = number % len(PALETTE)
    return {
        "color": PALETTE[own],
        "linestyle": LINES[(own + number // len(PALETTE)) % len(LINES)],
    }


def mark_look(number: int) -> dict[str, Any]:
    """Return colour and mark of the points with this number; all of the first 42 differ."""
    return {
        "color": PALETTE[number % len(PALETTE)],
        "marker": MARKS[number % len(MARKS)],
        "linestyle": "none",
    }


def bar_look(number: int) -> dict[str, Any]:
    """Return colour and hatch of the bars with this number."""
    own = number % len(PALETTE)
    return {
        "facecolor": PALETTE[own],
        "hatch": HATCHES[(own + number // len(PALETTE)) % len(HATCHES)],
        "edgecolor": "white",
        "linewidth": 0,
    }


def draw_overlay(ax: Any, overlay: Overlay | None) -> None:
    """Draw curves of others in black."""
    for number, (label, (x, y)) in enumerate((overlay or {}).items()):
        look = {"marker": MARKS[number % len(MARKS)], "markerfacecolor": "white"}
        line = LINES[1 + number % (len(LINES) - 1)]
        ax.plot(x, y, color="black", linewidth=0.8, linestyle=line, label=label, **look)


def legend(ax: Any) -> None:
    """Show a legend below the axes if there are several labels, or a curve of others.

    Data are never below it, wherever they are. Layouts of matplotlib make room for it.
    """
    labels = ax.get_legend_handles_labels()[1]
    if len(labels) < 2:
        return
    transforms = load("matplotlib.transforms")
    figure = ax.figure
    # The ticks and the label of the axis stand in between.
    axis = ax.xaxis.get_tightbbox()
    below = 0.0 if axis is None else min(axis.y0 - ax.bbox.y0, 0.0) / figure.dpi
    moved = transforms.ScaledTranslation(0.0, below, figure.dpi_scale_trans)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0)}
    is_alone = len(figure.axes) == 1
    room = 0.98 * (figure.bbox if is_alone else ax.bbox).width
    for columns in range(min(len(labels), _MAX_COLUMNS), 0, -1):
        shown = ax.legend(**place, bbox_transform=ax.transAxes + moved, ncols=columns)
        if shown.get_window_extent().width <= room:
            break


def scale_of(unit: str) -> tuple[float, str]:
    """Return the factor to a unit that reads well, and its name for an axis."""
    known = {
        "bit/s": (1e-6, "Mbit/s"),
        "bits_per_second": (1e-6, "Mbit/s"),
        "bytes": (1e-3, "kB"),
        "share": (100.0, "%"),
        "ms": (1.0, "ms"),
        "ratio": (100.0, "%"),
        "s": (1.0, "s"),
    }
    return known.get(unit, (1.0, ""))


def unit_of(column: str) -> str:
    """Return the unit at the end of a column's name."""
    ends = {"_bps": "bit/s", "_ms": "ms", "_s": "s", "_bytes": "bytes"}
    return next((unit for end, unit in ends.items() if column.endswith(end)), "")


def axis_label(name: str, unit: str) -> str:
    """Return an axis's label: words and the unit in which it is drawn."""
    words = name
    for end in ("_bps", "_ms", "_s", "_bytes"):
        words = words.removesuffix(end)
    words = words.replace("_", " ").replace("-", " ")
    shown = scale_of(unit)[1]
    return f"{words} ({shown})" if shown else words
