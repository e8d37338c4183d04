"""The folder of a sweep: its description, and files of partitions.

`sweep.json` describes the sweep; `TABLE/part-00000.parquet` holds a table of a partition. Files are
written to temporary names and renamed, that of `runs` last: it shows that the partition is
finished. Packages that read Parquet skip names that begin with a dot.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import os
import re
import uuid
from pathlib import Path
from typing import Any

from . import _native
from ._errors import VersionError
from ._extras import load
from ._scenario import Scenario, _named
from ._sweep_grid import Grid

#: Name of the description.
DESCRIPTION = "sweep.json"
#: Version of the folder's format.
FORMAT = 1
#: Entries that two descriptions of one sweep need not share.
_OF_FOLDER = ("identity", "part_points", "version")


def describe(
    scenario: Scenario, grid: Grid, seeds: list[int], traces: list[str], part_points: int
) -> dict[str, Any]:
    """Return the description of a sweep. Equal ones, apart from `identity`, have equal rows."""
    text = scenario.to_toml()
    axes = {axis.key: axis.overrides for axis in grid.axes}
    settings = filter(None, itertools.chain(*axes.values()))
    return {
        "format": FORMAT,
        "version": _native.__version__,
        "identity": uuid.uuid4().hex,
        "name": scenario.name,
        "scenario": text,
        "files": _files(scenario, [text, scenario._text, *settings]),
        "algorithms": _algorithms(scenario, grid),
        "settings": axes,
        "groups": [[axis.key for axis in group] for group in grid.groups],
        "columns": list(grid.columns),
        "seeds": seeds,
        "trace": traces,
        "point_count": len(grid),
        "part_points": part_points,
    }


def _files(scenario: Scenario, texts: list[str]) -> dict[str, str]:
    """Return the hash of each file that the texts name, such as a trace."""
    folder = Path(scenario._file).parent
    found = {}
    for name in {name for text in texts for name in re.findall(r'"([^"\n]{1,400})"', text)}:
        file = folder / name
        if file.is_file():
            found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return dict(sorted(found.items()))


def _algorithms(scenario: Scenario, grid: Grid) -> dict[str, str]:
    """Return the hash of each algorithm in Python: its source, and an instance's plain values."""
    known = dict(scenario.algorithms)
    for axis in grid.axes:
        for value in axis.values:
            _named(value, known)
    return {name: _algorithm_hash(value) for name, value in sorted(known.items())}


def _algorithm_hash(algorithm: Any) -> str:
    kind = algorithm if isinstance(algorithm, type) else type(algorithm)
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError):
        source = kind.__qualname__
    plain = (bool, int, float, str, type(None))
    own = {} if isinstance(algorithm, type) else vars(algorithm)
    values = {name: value for name, value in sorted(own.items()) if isinstance(value, plain)}
    return hashlib.sha256(f"{source}{values}".encode()).hexdigest()


def open_folder(folder: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the description in a folder, after writing `wanted` to one that is new or empty.

    Raise `FileExistsError` if it holds another sweep or something else, and `VersionError` for a
    sweep of another version of the package. Nothing that exists is changed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / DESCRIPTION
    if not file.exists():
        if any(not entry.name.startswith(f".{DESCRIPTION}.") for entry in folder.iterdir()):
            raise FileExistsError(
                f"{folder} holds no sweep, but other files; choose a folder that is new or empty"
            )
        temporary = folder / f".{DESCRIPTION}.{uuid.uuid4().hex}.tmp"
        temporary.write_text(json.dumps(wanted, indent=1) + "\n", encoding="utf-8")
        try:
            # Unlike a rename, a link fails if another process has written the file meanwhile.
            os.link(temporary, file)
        except FileExistsError:
            pass
        except OSError:
            # A file system without links.
            os.replace(temporary, file)
        finally:
            temporary.unlink(missing_ok=True)
    found = read_description(folder)
    if found["version"] != wanted["version"]:
        versions = [str(found["version"]), str(wanted["version"])]
        raise VersionError(
            f"{folder} holds a sweep of anabranch {versions[0]}, and this is {versions[1]}: "
            "go on with the same version, or choose another folder",
            versions,
        )
    different = [key for key in wanted if key not in _OF_FOLDER and found.get(key) != wanted[key]]
    if different:
        raise FileExistsError(
            f"{folder} holds another sweep: {', '.join(different)} differ; choose another folder"
        )
    return found


def read_description(folder: Path) -> dict[str, Any]:
    """Return the description of a folder.

    Raise `FileNotFoundError` without one, and `ValueError` for one of another format.
    """
    file = folder / DESCRIPTION
    if not file.is_file():
        raise FileNotFoundError(f"{folder} holds no sweep: there is no {DESCRIPTION}")
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        number = found["format"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{file} describes no sweep of anabranch") from None
    if number != FORMAT:
        raise ValueError(f"{file} has format {number}, and this version reads format {FORMAT}")
    return dict(found)


def holds(folder: str, identity: str) -> bool:
    """Return whether this machine sees the very folder that the sweep was started with."""
    try:
        return bool(read_description(Path(folder))["identity"] == identity)
    except (OSError, ValueError):
        return False


def part_file(folder: Path, table: str, number: int) -> Path:
    """Return the path of a partition's table."""
    return folder / table / f"part-{number:05}.parquet"


def write_part(folder: str | os.PathLike[str], number: int, files: dict[str, bytes]) -> None:
    """Write the files of a partition, the table of runs last.

    Two workers may write the same partition: its files are equal, and a rename replaces whole ones.
    """
    for table in sorted(files, key=lambda name: name == "runs"):
        file = part_file(Path(folder), table, number)
        file.parent.mkdir(exist_ok=True)
        temporary = file.with_name(f".{file.stem}.{uuid.uuid4().hex}.tmp")
        try:
            temporary.write_bytes(files[table])
            os.replace(temporary, file)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def finished(folder: Path) -> list[int]:
    """Return the numbers of finished partitions, in order."""
    names = (file.name for file in (folder / "runs").glob("part-*.parquet"))
    return sorted(int(name[len("part-") : -len(".parquet")]) for name in names)


def is_whole(folder: Path, tables: list[str], number: int, run_count: int) -> bool:
    """Return whether a partition's files can be read, as after a failure of power they may not."""
    parquet = load("pyarrow.parquet")
    try:
        counts = {
            table: parquet.read_metadata(part_file(folder, table, number)).num_rows
            for table in tables
        }
    except (OSError, ValueError):
        return False
    return bool(counts["runs"] == run_count)


def has_failures(folder: Path, number: int) -> bool:
    """Return whether a run of a finished partition has failed."""
    column = load("pyarrow.parquet").read_table(
        part_file(folder, "runs", number), columns=["error"]
    )
    return bool(column.column("error").null_count < len(column))


def remove_temporaries(folder: Path) -> None:
    """Remove files that killed workers left, once all partitions are finished."""
    for file in folder.glob("*/.part-*.tmp"):
        file.unlink(missing_ok=True)
