"""What ships with this gpupool: its own folder of Python, and the folders beside it in its repository.

    python -m gpupool.environment.shipped policies      # the folder's path, for commands of other programs

In a checkout policies and tools are at the top level, where people look for them; `setup.py` copies them into
the wheel. The user's project is another thing (`gpupool.environment.project`), and may have folders of the
same names.
"""

from __future__ import annotations

import sys
from pathlib import Path


def folder(name: str) -> Path:
    """The folder, or file, `name` as it came with this gpupool."""
    packed = Path(__file__).parents[1] / "shipped" / name
    return packed if packed.exists() else library() / name


def library() -> Path:
    """The folder that gpupool is imported from: the top of a checkout, or site-packages."""
    return Path(__file__).resolve().parents[2]


def command(module: str, *arguments: str) -> list[str]:
    """Runs a module of this gpupool; with `variables()` it is found, and nothing in the working directory."""
    return [sys.executable, "-P", "-m", module, *arguments]


def variables() -> dict[str, str]:
    """What `command` needs in its environment."""
    return {"PYTHONPATH": str(library())}


if __name__ == "__main__":
    print(*map(folder, sys.argv[1:]), sep="\n")
