"""Folders that ship with gpupool, beside the package in its repository: policies, tools.

In a checkout they are at the top level, where people look for them; `setup.py` copies them into the wheel.
"""

from __future__ import annotations

from pathlib import Path


def folder(name: str) -> Path:
    """The folder `name` as it came with this gpupool."""
    packed = Path(__file__).parent / "shipped" / name
    return packed if packed.is_dir() else Path(__file__).parents[1] / name
