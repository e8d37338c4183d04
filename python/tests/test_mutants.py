"""Tests of `scripts/mutants.py`, which compares surviving mutants with those that are known."""

from __future__ import annotations

import argparse
import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LISTS = ROOT / "scripts" / "mutants"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "scripts" / "mutants.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


mutants = script()
A = "crates/mux/src/send.rs: replace < with <= in Sending::take"
B = "crates/mux/src/send.rs: replace + with - in Sending::take"


def compared(
    known: list[str], existing: list[str], noticed: list[str], missed: list[str]
) -> tuple[list[str], ...]:
    both = mutants.compare(*map(Counter, (known, existing, noticed, missed)))
    return tuple(sorted(part.elements()) for part in both)


def test_an_unlisted_survivor_is_new() -> None:
    assert compared([], [A, B], [B], [A]) == ([A], [])
    assert compared([A], [A, B], [B], [A]) == ([], [])


def test_a_listed_one_that_is_noticed_has_to_go() -> None:
    assert compared([A, B], [A, B], [A], [B]) == ([], [A])


def test_a_listed_one_that_is_no_longer_in_the_code_has_to_go() -> None:
    assert compared([A, B], [B], [], []) == ([], [A])


def test_a_shard_says_nothing_of_the_others() -> None:
    assert compared([A, B], [A, B], [], []) == ([], [])
    assert compared([A], [A, B], [B], []) == ([], [])


def test_of_mutants_of_one_name_as_many_survive_as_are_listed() -> None:
    assert compared([A], [A, A], [A], [A]) == ([], [])
    assert compared([A], [A, A], [], [A, A]) == ([A], [])
    assert compared([A, A], [A, A], [A], [A]) == ([], [A])
    # One of two is noticed: the listed one may be the other.
    assert compared([A], [A, A], [A], []) == ([], [])


def test_places_are_left_out_of_lists() -> None:
    placed = [A.replace(".rs: ", f".rs:{place}: ") for place in ("12:5", "90:17")]
    text = "\n".join(["# a comment", "", *placed, B])
    assert mutants.counted(text) == Counter({A: 2, B: 1})


def test_a_list_is_read_as_it_was_written() -> None:
    known = mutants.Known({"crates/mux/src/send.rs"}, Counter({A: 2, B: 1}))
    assert known.text().splitlines() == ["# compared: crates/mux/src/send.rs", *sorted([A, A, B])]
    assert mutants.Known.parse(known.text()) == known


def test_mutants_of_files_that_were_not_tried_are_not_compared() -> None:
    known = mutants.Known({"crates/mux/src/send.rs"}, Counter())
    other = A.replace("send.rs", "receive.rs")
    assert known.of_compared(Counter([A, other, other])) == Counter([A])


class Tried:
    """A part whose run is invented: its mutants, and those that no test notices."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, existing: list[str]
    ) -> None:
        self.existing = Counter(existing)
        self.list = folder / "mux.txt"
        monkeypatch.setattr(mutants, "LISTS", folder)
        monkeypatch.setattr(mutants, "existing", lambda part: self.existing)
        monkeypatch.setattr(mutants, "run", lambda part, shard, output: None)
        self.monkeypatch = monkeypatch

    def tend(
        self, missed: list[str], record: bool = False, tried: Counter[str] | None = None
    ) -> bool:
        noticed = (tried or self.existing) - Counter(missed)
        self.monkeypatch.setattr(mutants, "results", lambda folder: (noticed, Counter(missed)))
        wanted = argparse.Namespace(compare_only=False, shard="0/1", file=[], record=record)
        is_good: bool = mutants.tend("mux", mutants.PARTS["mux"], wanted)
        return is_good


def test_the_first_complete_run_makes_a_list_which_later_only_shrinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = Tried(tmp_path, monkeypatch, [A, B])
    assert part.tend([A, B]), "not compared yet"
    assert part.tend([A], record=True)
    assert part.list.read_text().splitlines() == ["# compared: crates/mux/src/send.rs", A]
    assert part.tend([A])
    assert not part.tend([A, B]), "a new one"
    assert not part.tend([]), "it is noticed now"
    assert part.tend([], record=True)
    assert part.list.read_text().splitlines() == ["# compared: crates/mux/src/send.rs"]


def test_a_run_of_some_mutants_makes_no_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = Tried(tmp_path, monkeypatch, [A, B])
    assert part.tend([A], record=True, tried=Counter([A]))
    assert part.list.read_text() == ""
    assert part.tend([A, B]), "not compared"


def test_one_that_hangs_or_does_not_compile_is_noticed(tmp_path: Path) -> None:
    for name, lines in {"caught": A, "missed": "", "timeout": B, "unviable": ""}.items():
        (tmp_path / f"{name}.txt").write_text(lines)
    assert mutants.results(tmp_path) == (Counter([A, B]), Counter())


@pytest.mark.parametrize("path", sorted(LISTS.glob("*.txt")), ids=lambda path: path.stem)
def test_lists_are_of_parts_and_sorted(path: Path) -> None:
    known = mutants.Known.parse(path.read_text())
    assert path.stem in mutants.PARTS
    assert known.text() == path.read_text(), "sorted"
    assert known.of_compared(known.survivors) == known.survivors
    assert all((ROOT / file).is_file() for file in known.files)
