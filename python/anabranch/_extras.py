"""Optional packages, imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from ._errors import MissingExtra

#: The extra that installs each optional package.
EXTRAS = {
    "pandas": "pandas",
    "polars": "polars",
    "pyarrow": "arrow",
    "pyarrow.compute": "arrow",
    "pyarrow.dataset": "arrow",
    "pyarrow.parquet": "arrow",
    "matplotlib": "plot",
    "matplotlib.pyplot": "plot",
    "tqdm": "progress",
    "tqdm.auto": "progress",
    "dask": "dask",
    "distributed": "dask",
    "gymnasium": "rl",
    "stable_baselines3": "ppo",
    "torch": "ppo",
}


def load(module: str) -> Any:
    """Return an optional module, or raise `MissingExtra` that names its extra."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        root = module.split(".")[0]
        if error.name is not None and error.name.split(".")[0] != root:
            raise
        raise MissingExtra(root, EXTRAS[module]) from None
