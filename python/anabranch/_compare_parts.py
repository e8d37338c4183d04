"""Settings, flows and links of comparisons, named as on the command line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from . import _native
from ._algorithms import Controller, Scheduler
from ._errors import ScenarioError, UnknownName
from ._scenario import Scenario
from ._table import Table
from ._toml import with_unit

#: Algorithms that are replaced in every flow with the same one as the first.
_REPLACED = ("controller", "scheduler")


class Asked(NamedTuple):
    """A metric: its name, column, unit and scope, and the name of its flow or link."""

    metric: str
    column: str
    unit: str
    scope: str
    #: None: all flows together, or every link or flow, as the scope has it.
    subject: str | None


def asked_of(names: Sequence[str]) -> list[Asked]:
    """Return metrics by their names or columns, each with a flow or link after a dot or without."""
    if isinstance(names, str):
        raise ValueError(f"metrics: a list of names is needed, such as [{names!r}]")
    return [metric_named(name) for name in names]


def metric_named(text: str) -> Asked:
    """Return a metric by its name or column, with a flow or link after a dot or without."""
    name, dot, subject = text.partition(".")
    table = Table(_native.metrics())
    for at in range(len(table)):
        if name in (table["metric"][at], table["column"][at]):
            metric, column, unit, scope = (
                str(table[key][at]) for key in ("metric", "column", "unit", "scope")
            )
            return Asked(metric, column, unit, scope, subject if dot else None)
    known = [str(metric) for metric in table["metric"]]
    near = _native.nearest_name(name, known)
    hint = f"; did you mean {near!r}?" if near else ""
    raise UnknownName(
        f"no metric is called {name!r}; known are {', '.join(known)}{hint}", known, near
    )


def check_subjects(metrics: Sequence[Asked], scenario: Scenario) -> None:
    """Raise `UnknownName` for a flow or link that the scenario lacks."""
    for asked in metrics:
        if asked.subject is None:
            continue
        text = f"{asked.metric}.{asked.subject}"
        if asked.scope == "run":
            raise UnknownName(f"{text}: {asked.metric} is of all flows together", [asked.metric])
        is_link = asked.scope == "links"
        kind, known = ("link", scenario.link_names) if is_link else ("flow", scenario.flow_names)
        if asked.subject not in known:
            near = _native.nearest_name(asked.subject, known)
            hint = f"; did you mean {near!r}?" if near else ""
            reason = f"{text}: no {kind} is called {asked.subject!r}; known are {', '.join(known)}"
            raise UnknownName(reason + hint, known, near)


def labelled(vary: Mapping[str, Sequence[Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings of each combination by its label."""
    if not vary:
        raise ValueError("vary: no setting to compare")
    for key, values in vary.items():
        if isinstance(values, str) or not len(values):
            raise ValueError(f"vary: {key!r} needs a list of values")
    found: dict[str, dict[str, Any]] = {}
    for combination in itertools.product(*vary.values()):
        pairs = list(zip(vary, combination, strict=True))
        label = ", ".join(f"{key}={shown(value)}" for key, value in pairs)
        if label in found:
            raise ValueError(f"vary: {label} is there twice; give instances a `name` of their own")
        found[label] = dict(pairs)
    return found


def varied(scenario: Scenario, settings: Mapping[str, Any]) -> Scenario:
    """Return a scenario with the settings of a combination."""
    own = {_full(key): value for key, value in settings.items() if key not in _REPLACED}
    changed = scenario.with_(own) if own else scenario
    for key in _REPLACED:
        if key in settings:
            changed = _replaced(changed, key, settings[key])
    return changed


@cache
def _keys_of_scenarios() -> frozenset[str]:
    return frozenset(json.loads(_native.schema())["properties"])


def _full(key: str) -> str:
    """Return a key with its place: a bare one that scenarios lack is of the first flow."""
    # Any number has the unit of its key taken off.
    plain = with_unit(key, 1)[0]
    return key if "." in key or plain in _keys_of_scenarios() else f"flows.0.{key}"


def _replaced(scenario: Scenario, key: str, value: Any) -> Scenario:
    """Return a scenario with another controller or scheduler under test.

    This is the one of the first flow that has any. Every flow with the same one gets the other,
    and keeps options that it has beyond it, if the other knows them. Raises `ScenarioError`.
    """
    flows = scenario.describe()["flows"]
    # Traffic without control has no scheduler.
    first = next((at for at, flow in enumerate(flows) if flow["scheduler"]), 0)
    under_test = str(flows[first][key])
    changed, errors = scenario, dict[int, ScenarioError]()
    # An entry of the file stands for one flow or several.
    for entry in range(len(flows)):
        place = f"flows.{entry}.{key}"
        try:
            tried = changed.with_({place: value})
        except ScenarioError as error:
            errors[entry] = error
            continue
        options = _options(changed, tried, key, under_test)
        if options is not None:
            changed = _with_options(tried, place, value, options)
    if len(errors) == len(flows):
        raise errors[first]
    return changed


def _options(before: Scenario, after: Scenario, key: str, under_test: str) -> str | None:
    """Return options of the flows that changed beyond the one under test; None: of no such flow."""
    pairs = zip(before.describe()["flows"], after.describe()["flows"], strict=True)
    own = next((str(old[key]) for old, new in pairs if old[key] != new[key]), "")
    options = own.removeprefix(under_test)
    is_same = own == under_test + options and (not options or options.startswith(":"))
    return options if is_same else None


def _with_options(tried: Scenario, place: str, value: Any, options: str) -> Scenario:
    if not options or not isinstance(value, str):
        return tried
    try:
        return tried.with_({place: value + options})
    except ScenarioError:
        return tried


def shown(value: Any) -> str:
    """Return a value for a label: of an algorithm its name, and an instance's plain attributes."""
    is_instance = isinstance(value, (Controller, Scheduler))
    if isinstance(value, type) or is_instance:
        kind = type(value) if is_instance else value
        if getattr(value, "name", ""):
            return str(value.name)
        plain = vars(value).items() if is_instance else ()
        parts = [f"{key}={part}" for key, part in plain if isinstance(part, (int, float, str))]
        return f"{kind.__name__}({', '.join(parts)})" if parts else str(kind.__name__)
    return str(getattr(value, "name", "") or value)
