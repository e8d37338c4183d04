"""The citation: `CITATION.cff`, the entry of the guide, and the version of the package agree."""

from __future__ import annotations

import re
from pathlib import Path

import anabranch

ROOT = Path(__file__).parents[2]


def cff(key: str) -> str:
    """Return a value of CITATION.cff, without quotes."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    found = re.search(rf"^(?:  - )?{key}: (.*)$", text, re.M)
    assert found, key
    return found[1].strip().strip('"')


def bibtex() -> dict[str, str]:
    """Return the fields of the entry in the guide."""
    text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    entry = re.search(r"```bibtex\n(@software\{anabranch,\n.*?\n\})\n```", text, re.S)
    assert entry
    return dict(re.findall(r"^  (\w+) += \{(.*)\},$", entry[1], re.M))


def test_both_entries_have_the_version_of_the_package() -> None:
    assert cff("version") == bibtex()["version"] == anabranch.__version__
    cargo = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    assert f'version = "{anabranch.__version__}"' in cargo


def test_both_entries_have_one_title_author_and_address() -> None:
    entry = bibtex()
    assert entry["title"].replace("{", "").replace("}", "") == cff("title")
    assert entry["author"] == "{" + cff("name") + "}"
    assert set(entry) >= {"title", "author", "version", "year", "note"}
