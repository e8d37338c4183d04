"""Notebooks: each runs from its first cell to its last, and is committed without outputs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
#: Longest time of a cell in seconds, on a busy machine.
CELL_TIMEOUT_S = 600


def read(path: Path) -> dict[str, Any]:
    """Return a notebook."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_there_are_four() -> None:
    assert [path.name[:2] for path in NOTEBOOKS] == ["1-", "2-", "3-", "4-"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_have_no_outputs_and_true_links(path: Path) -> None:
    for cell in read(path)["cells"]:
        assert not cell.get("outputs") and not cell.get("execution_count"), "clear all outputs"
        text = "".join(cell["source"])
        assert all(len(line) <= 100 for line in text.splitlines())
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (FOLDER / target).exists(), target


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_name_an_installation_that_is_possible(path: Path) -> None:
    text = "".join("".join(cell["source"]) for cell in read(path)["cells"])
    # No index of packages has the package.
    assert re.findall(r"pip install [^`]*", text) == ["pip install './python[notebooks]'"]


def execute(book: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Execute a notebook without a display, and return the number of pictures of each cell."""
    reason = "NOT executed: pip install nbclient ipykernel"
    nbclient = pytest.importorskip("nbclient", reason=reason)
    pytest.importorskip("ipykernel", reason=reason)
    for package in ("matplotlib", "pandas", "pyarrow", "distributed"):
        pytest.importorskip(package, reason=f"NOT executed: {package} is missing")
    # Files of notebooks, of the cache and of IPython stay in the test's folder.
    for name in ("TMPDIR", "XDG_CACHE_HOME", "IPYTHONDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    client = nbclient.NotebookClient(
        book,
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": os.fspath(tmp_path)}},
    )
    client.execute()
    return [
        sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))
        for cell in book.cells
    ]


def draws(source: str) -> bool:
    """Return whether a cell draws a figure."""
    return re.search(r"\.plot\.\w+\(|pyplot\.subplots\(|plt\.subplots\(", source) is not None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_and_show_a_picture_for_each_cell_that_draws(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat = pytest.importorskip("nbformat", reason="NOT executed: pip install nbformat")
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    pictures = execute(book, tmp_path, monkeypatch)
    assert pictures == [int(draws(cell.source)) for cell in book.cells] and any(pictures)
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    texts = "".join(output.get("text", "") for output in outputs)
    assert "Error" not in texts or path.name.startswith("3-")


#: Cells of a notebook that lets the package load matplotlib, as no other code does.
CELLS = [
    """import anabranch
swept = anabranch.testing.small_scenario().with_(
    {"sweep": {"links.up.rate_mbps": [1, 2], "links.up.delay_ms": [20, 40]}})
result = anabranch.run(swept, seeds=2, trace=["frames", "series"], progress=False)
compared = anabranch.compare(
    anabranch.testing.small_scenario(), vary={"controller": ["live-bbr", "fixed"]},
    metrics=["loss"], seeds=2, trace=["frames"], progress=False)
value = {"name": "a", "unit": "ms", "paper_value": 20.0,
    "ours": {"median": 21.0, "min": 20.0, "max": 22.0}}
claim = {"id": "X", "verdict": "holds", "seed_count": 3, "values": [value]}""",
    "result.plot.timeline();",
    "result.plot.cdf();",
    "result.plot.series();",
    'result.plot.heatmap("links.up.rate_bps", "links.up.delay_ms", "loss");',
    "compared.plot.bars();",
    "compared.plot.cdf();",
    "compared.plot.frontier();",
    'anabranch.Findings({"findings": [claim]}).plot.bars();',
    "result.plot.timeline(); result.plot.cdf();",
]


def test_every_plot_of_a_notebook_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="NOT executed: pip install nbformat")
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS]
    pictures = execute(nbformat.v4.new_notebook(cells=cells), tmp_path, monkeypatch)
    assert pictures == [0, *[1] * (len(CELLS) - 2), 2]
