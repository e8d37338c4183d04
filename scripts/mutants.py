#!/usr/bin/env python3
"""Changes rules one by one (cargo-mutants), and compares those that no test notices with a list.

    scripts/mutants.py [--shard K/N] [--file FILE]… [--record] [--compare-only] [PART…]

scripts/mutants/PART.txt lists the known survivors of a part, one a line and without line numbers, so that it outlives
edits. A line that stands twice allows two such mutants. The run fails if one survives that is not listed, and if a
listed one is noticed or is gone: a list only shrinks. Lines "# compared: FILE" name the files all of whose mutants have
been tried. Mutants of other files are run and NOT COMPARED.

    --shard K/N       runs every Nth mutant, from number K on; default: all
    --file FILE       runs the mutants of this file of the part alone; may be repeated
    --record          writes the list, and marks the files of a run of all mutants as compared
    --compare-only    compares the results in target/mutants and runs nothing
"""

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LISTS = ROOT / "scripts" / "mutants"
CARGO = os.environ.get("CARGO", "cargo")
# Results of cargo-mutants: some survive, some hang. Others are failures of the tool or of the tests without a mutant.
SURVIVED, HUNG = 2, 3
# Seconds of a test program; a mutant that hangs it is noticed.
TIMEOUT = 60


class Part(NamedTuple):
    """Files of a package, and which of its tests run."""

    package: str
    files: list[str]
    tests: list[str]


def files(folder: str, *names: str) -> list[str]:
    return [f"crates/{folder}/src/{name}" for name in names]


ALL_TESTS = ["--lib", "--tests"]
PARTS = {
    "buffers": Part(
        "anabranch-core",
        files(
            "core",
            "media/reassembly.rs",
            "media/send_buffer.rs",
            "media/send_buffer/*.rs",
            "recovery.rs",
            "recovery/*.rs",
            "wire.rs",
            "wire/*.rs",
        ),
        ["--lib"],
    ),
    "link": Part("anabranch-link", files("link", "discipline.rs", "discipline/*.rs"), ALL_TESTS),
    "mux": Part("anabranch-mux", [], ALL_TESTS),
    "net": Part("anabranch-net", [], ALL_TESTS),
    "secure": Part("anabranch-secure", [], ["--lib"]),
    "sessions": Part(
        "anabranch-core", files("core", "session.rs", "session/**/*.rs", "path.rs", "path/**/*.rs"), ALL_TESTS
    ),
    "srt": Part("anabranch-srt", [], ["--lib"]),
    "srtla": Part("anabranch-srtla", [], ALL_TESTS),
}
# Checks for tests alone.
EXCLUDED = ["**/invariants.rs", "**/fuzzing.rs", "**/testing/**"]


def without_place(mutant: str) -> str:
    """Returns the name of a mutant without line and column."""
    return re.sub(r"^(\S+?):\d+:\d+: ", r"\1: ", mutant)


def counted(text: str) -> Counter[str]:
    """Returns how often each mutant stands in a list of cargo-mutants, or in one of ours."""
    lines = (line.strip() for line in text.splitlines())
    return Counter(without_place(line) for line in lines if line and not line.startswith("#"))


COMPARED = "# compared: "


class Known(NamedTuple):
    """A list of survivors."""

    files: set[str]
    """Files all of whose mutants have been tried."""
    survivors: Counter[str]

    @staticmethod
    def parse(text: str) -> "Known":
        lines = text.splitlines()
        return Known({line[len(COMPARED) :] for line in lines if line.startswith(COMPARED)}, counted(text))

    def text(self) -> str:
        heads = [COMPARED + file for file in sorted(self.files)]
        return "".join(f"{line}\n" for line in heads + sorted(self.survivors.elements()))

    def of_compared(self, mutants: Counter[str]) -> Counter[str]:
        """Returns the mutants of files that are compared."""
        return Counter({mutant: count for mutant, count in mutants.items() if file_of(mutant) in self.files})


def file_of(mutant: str) -> str:
    return mutant.partition(": ")[0]


class Comparison(NamedTuple):
    """Differences between a list and the results."""

    new: Counter[str]
    """Survivors that are not listed."""
    noticed: Counter[str]
    """Listed ones that a test notices now, or that are no longer in the code."""


def compare(known: Counter[str], existing: Counter[str], noticed: Counter[str], missed: Counter[str]) -> Comparison:
    """Compares the results of any share of the `existing` mutants with the `known` survivors.

    Mutants of one name cannot be told apart: a known one is noticed for certain only if fewer are left.
    """
    return Comparison(new=missed - known, noticed=known - (existing - noticed))


def results(folder: Path) -> tuple[Counter[str], Counter[str]]:
    """Returns the noticed mutants and the survivors of a run. One that hangs or does not compile is noticed."""
    read = {name: counted((folder / f"{name}.txt").read_text()) for name in ("caught", "missed", "timeout", "unviable")}
    return read["caught"] + read["timeout"] + read["unviable"], read["missed"]


def arguments(part: Part) -> list[str]:
    """Returns the options of cargo-mutants that choose a part."""
    chosen = [f"--file={name}" for name in part.files]
    return ["--package", part.package, *chosen, *(f"--exclude={name}" for name in EXCLUDED)]


def existing(part: Part) -> Counter[str]:
    """Returns all mutants of a part."""
    listed = subprocess.run(
        [CARGO, "mutants", "--list", *arguments(part)], cwd=ROOT, text=True, stdout=subprocess.PIPE, check=True
    )
    return counted(listed.stdout)


def run(part: Part, shard: str, output: Path) -> None:
    """Runs a share of a part's mutants."""
    output.mkdir(parents=True, exist_ok=True)
    limits = ["--jobs", "1", "--timeout", str(TIMEOUT), "--shard", shard, "--output", str(output)]
    command = ["nice", CARGO, "mutants", *limits, *arguments(part), "--", *part.tests]
    status = subprocess.run(command, cwd=ROOT).returncode
    if status not in (0, SURVIVED, HUNG):
        sys.exit(f"{' '.join(command)} ended with {status}")


def judge(name: str, compared: Comparison) -> bool:
    """Prints the differences, and returns whether there are none."""
    for mutant in compared.new.elements():
        print(f"{name}: NO TEST NOTICES: {mutant}")
    for mutant in compared.noticed.elements():
        print(f"{name}: remove from scripts/mutants/{name}.txt, it is noticed or gone: {mutant}")
    return not compared.new and not compared.noticed


def tend(name: str, part: Part, wanted: argparse.Namespace) -> bool:
    """Runs and compares a part. Returns whether its survivors are the known ones."""
    path, output = LISTS / f"{name}.txt", ROOT / "target" / "mutants" / name
    if not wanted.compare_only:
        run(part, wanted.shard, output)
    noticed, missed = results(output / "mutants.out")
    tried = noticed + missed
    print(f"{name}: {tried.total()} mutants, {missed.total()} that no test notices")
    known = Known.parse(path.read_text() if path.exists() else "")
    all_of_part = existing(part)
    if wanted.record and tried == all_of_part:
        known = Known(known.files | {file_of(mutant) for mutant in tried}, known.survivors)
    others = tried - known.of_compared(tried)
    if others:
        print(f"{name}: NOT COMPARED: {others.total()} mutants of files that {path.name} does not name as compared")
    listed = known.survivors
    if wanted.file:
        listed = Counter({mutant: count for mutant, count in listed.items() if file_of(mutant) in wanted.file})
    compared = compare(listed, *map(known.of_compared, (all_of_part, noticed, missed)))
    if wanted.record:
        path.write_text(known._replace(survivors=known.survivors - compared.noticed + compared.new).text())
        return True
    return judge(name, compared)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--compare-only", action="store_true")
    wanted = parser.parse_args()
    for name in wanted.parts:
        if name not in PARTS:
            parser.error(f"there is no part {name}; the parts are: {', '.join(PARTS)}")
    is_good = True
    for name in wanted.parts or PARTS:
        part = PARTS[name]
        is_good &= tend(name, part._replace(files=wanted.file or part.files), wanted)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
