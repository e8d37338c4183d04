"""Tables of names: everything that can be chosen, and every column."""

from __future__ import annotations

from . import _native
from ._table import Table


def controllers() -> Table:
    """Return all congestion controllers: `name`, `meaning`, `options` (name=values, default first).

    >>> import anabranch
    >>> "live-bbr" in anabranch.controllers()["name"]
    True
    """
    return Table(_native.controllers())


def schedulers() -> Table:
    """Return all schedulers: `name`, `meaning`.

    >>> import anabranch
    >>> "min-cost" in anabranch.schedulers()["name"]
    True
    """
    return Table(_native.schedulers())


def metrics() -> Table:
    """Return all metrics: `metric`, `column`, `unit`, `scope`, `meaning`.

    `scope` is `run`, `flows` (each flow and all together), `each flow` or `links`.

    >>> import anabranch
    >>> anabranch.metrics().where(metric="goodput")["column"].tolist()
    ['goodput_bps']
    """
    return Table(_native.metrics())


def columns() -> Table:
    """Return all columns of results: `table`, `column`, `unit`, `meaning`.

    >>> import anabranch
    >>> columns = anabranch.columns()
    >>> columns.where(table="frames", column="delay_ms")["unit"].tolist()
    ['ms']
    """
    return Table(_native.columns_table())


def claims() -> Table:
    """Return all claims of papers that `reproduce` tests: `id`, `paper`, `figure`, `claim`.

    >>> import anabranch
    >>> anabranch.claims().where(id="S0-F7")["paper"].tolist()
    ['zhang-delay-bbr']
    """
    return Table(_native.claims())
