"""The file of --map: what names of a trace are in the environment file.

tenants: {vc6: vision, "*": language}
gpus: {V100: a100-80gb, "*": ""}       # an empty name: any GPU
priorities: {LS: high}
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from gpupool.environment.spec.field_types import Model
from gpupool.environment.spec.shape import read_as
from gpupool.queue.simulate.trace import Names


class NamesFile(Model):
    """Names of a trace -> names of the environment file; `*` stands for all others."""

    tenants: dict[str, str] = {}
    """Tenants of the trace."""
    gpus: dict[str, str] = {}
    """GPUs of the trace -> pools, keys of the catalog or profiles; an empty name stands for any."""
    priorities: dict[str, Literal["critical", "high", "medium", "low"]] = {}
    """Priorities of the trace -> levels."""


def read_names(file: Path | None) -> Names:
    """None: every name as it is. Raises SpecError with the places of what is wrong."""
    if file is None:
        return Names()
    read = read_as(file, NamesFile, "write tenants, gpus, priorities: names -> names")
    return Names(read.tenants, read.gpus, dict(read.priorities))
