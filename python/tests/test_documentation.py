"""The table of columns in docs/python-columns.md. `python test_documentation.py` writes it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import anabranch

PAGE = Path(__file__).parents[2] / "docs/python.md"
COLUMNS = PAGE.with_name("python-columns.md")
BEGIN, END = "<!-- columns: begin -->\n", "<!-- columns: end -->\n"


def table() -> str:
    """Return the columns of all tables in Markdown, equal ones of several tables once."""
    columns = anabranch.columns()
    names = zip(*(columns[name] for name in ("column", "unit", "meaning")), strict=True)
    tables: dict[tuple[str, str, str], list[str]] = {}
    for key, of_table in zip(names, columns["table"], strict=True):
        tables.setdefault(key, []).append(of_table)
    lines = ["| column | unit | tables | meaning |", "|---|---|---|---|"]
    every = len(columns.categories("table"))
    for (column, unit, meaning), of_tables in tables.items():
        where = "all" if len(of_tables) == every else ", ".join(f"`{name}`" for name in of_tables)
        lines.append(f"| `{column}` | {unit} | {where} | {meaning} |")
    return "\n".join(lines) + "\n"


def test_the_page_has_the_columns_of_the_package() -> None:
    text = COLUMNS.read_text(encoding="utf-8")
    assert text.split(BEGIN)[1].split(END)[0] == table()


def test_the_examples_of_the_page_run() -> None:
    names: dict[str, Any] = {}
    pages = [PAGE, PAGE.with_name("python-learning.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    blocks = re.findall(r"```python\n(.*?)```", text, re.S)
    wrong = 'with_({"flows.0.scheduler": "min-cots"})'
    # Curves, recordings, folders, clusters and programs of the reader's own.
    marks = ["(x, y)", "5g.csv", "results/", "/shared/results", "emulate("]
    of_others = [block for block in blocks if any(mark in block for mark in marks)]
    assert len(blocks) == 13 and len(of_others) == 7
    assert sum(wrong in block for block in blocks) == 1
    for block in blocks:
        if block in of_others:
            compile(block, "docs/python.md", "exec")
        elif wrong in block:
            with pytest.raises(anabranch.ScenarioError, match='did you mean "min-cost"'):
                exec(block, names)
        else:
            exec(block, names)
    assert not names["result"].is_partial
    algorithms = [names["Aimd"], names["Nearest"]]
    assert list(names["scenario"].algorithms.values()) == algorithms


def test_the_examples_of_the_page_on_other_simulators_run() -> None:
    page = PAGE.with_name("from-other-simulators.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert len(blocks) == 3
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    # Ten seconds of 500 kbit/s, of which 1,448 B of 1,502 B are payload.
    assert 0.8 * 602_000 < names["received"] < 602_000
    assert names["video"].flows["loss"].min() > 0
    assert len(names["report"].labels) == 4
    for file in re.findall(r"EnablePcap|from_pcap|from_flow_monitor|from_pantheon", page):
        assert file == "EnablePcap" or hasattr(anabranch.Trace, file)


if __name__ == "__main__":
    before, rest = COLUMNS.read_text(encoding="utf-8").split(BEGIN)
    COLUMNS.write_text(before + BEGIN + table() + END + rest.split(END)[1], encoding="utf-8")
