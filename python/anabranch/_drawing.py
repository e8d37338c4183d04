"""Pictures of scenarios, as SVG."""

from __future__ import annotations

from html import escape
from typing import Any

_ROW = 46
_COLUMN = 190
_BOX = 150
#: Colour-blind safe (Okabe & Ito).
_COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
#: More flows than this are summed up in a line.
_MAX_FLOWS = 12


def rate_text(bps: float | None) -> str:
    """Return a rate for people: `2.5 Mbit/s`; `no limit` for None."""
    if bps is None:
        return "no limit"
    for factor, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bps >= factor:
            return f"{bps / factor:g} {unit}"
    return f"{bps:g} bit/s"


def topology_svg(described: dict[str, Any]) -> str:
    """Return a drawing: flows on the left, the links of their routes, the receivers' side right."""
    links = {link["name"]: link for link in described["links"]}
    routes = {route["name"]: route for route in described["routes"]}
    flows = described["flows"]
    used = list(dict.fromkeys(name for flow in flows for name in flow["routes"]))
    rows = {name: row for row, name in enumerate(used)}
    hops = max((len(routes[name]["forward"]) for name in used), default=1)
    shown = flows[:_MAX_FLOWS]
    height = max(len(used), len(shown) + (len(flows) > len(shown)), 1) * _ROW + 30
    width = _COLUMN * (hops + 1) + 120
    parts = [_text(8, 18, f"{described['title']} ({described['duration_s']:g} s)", bold=True)]
    for name, row in rows.items():
        y = 30 + row * _ROW
        for hop, link in enumerate(routes[name]["forward"]):
            parts.append(_link_box(_COLUMN * (hop + 1), y, links[link]))
        end = _COLUMN * (len(routes[name]["forward"]) + 1)
        parts.append(_text(end, y + 20, f"→ {name}"))
    for row, flow in enumerate(shown):
        colour = _COLOURS[row % len(_COLOURS)]
        y = 30 + row * _ROW
        parts.append(_flow_box(8, y, flow, colour))
        for name in flow["routes"]:
            target = 30 + rows[name] * _ROW + 17
            parts.append(
                f'<line x1="{8 + _BOX}" y1="{y + 17}" x2="{_COLUMN}" y2="{target}" '
                f'stroke="{colour}" stroke-width="1.5"/>'
            )
    if len(flows) > len(shown):
        more = len(flows) - len(shown)
        parts.append(_text(8, 30 + len(shown) * _ROW + 18, f"and {more} more flows"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, text: str, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" fill="currentColor"{weight}>{escape(text)}</text>'


def _box(x: float, y: float, lines: tuple[str, str], colour: str) -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{_BOX}" height="34" rx="4" fill="none" '
        f'stroke="{colour}"/>'
        + _text(x + 6, y + 14, lines[0], bold=True)
        + _text(x + 6, y + 28, lines[1])
    )


def _link_box(x: float, y: float, link: dict[str, Any]) -> str:
    second = f"{rate_text(link['rate_bps'])}, {link['delay_ms']:g} ms"
    return _box(x, y, (link["name"], second), "currentColor")


def _flow_box(x: float, y: float, flow: dict[str, Any], colour: str) -> str:
    algorithms = [flow["controller"], flow["scheduler"]]
    return _box(x, y, (flow["name"], ", ".join(text for text in algorithms if text)), colour)
