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
def test_notebooks_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "NOT executed: pip install nbclient ipykernel"
    nbformat = pytest.importorskip("nbformat", reason=reason)
    nbclient = pytest.importorskip("nbclient", reason=reason)
    pytest.importorskip("ipykernel", reason=reason)
    for package in ("matplotlib", "pandas", "pyarrow", "distributed"):
        pytest.importorskip(package, reason=f"NOT executed: {package} is missing")
    # Files of notebooks, of the cache and of IPython stay in the test's folder.
    for name in ("TMPDIR", "XDG_CACHE_HOME", "IPYTHONDIR"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    book = nbformat.read(path, as_version=4)
    nbformat.validate(book)
    client = nbclient.NotebookClient(
        book,
        timeout=CELL_TIMEOUT_S,
        kernel_name="python3",
        resources={"metadata": {"path": os.fspath(tmp_path)}},
    )
    client.execute()
    outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert pictures, "a notebook shows a picture"
    texts = "".join(output.get("text", "") for output in outputs)
    assert "Error" not in texts or path.name.startswith("3-")
