"""The user's project: where Pulumi.yaml is, the state and the folder .gpupool, and its environments' folder.

Environments need no Pulumi, so they may be in another folder. This module must not know what came with
gpupool (`gpupool.environment.shipped`) but for one case: a checkout of gpupool is a project of its own.
"""

from __future__ import annotations

import os
from pathlib import Path

from gpupool.environment import shipped
from gpupool.findings import GpupoolError

FILE = "Pulumi.yaml"
"""What makes a folder a project; `gpupool init` writes it."""
OWN = ".gpupool"
"""The folder of a project for what runs there and its state, which only its owner enters."""


def environments_folder() -> Path:
    """The `environments` folder of the project that one stands in; there may be none."""
    here = Path.cwd().resolve()
    for folder in (here, *here.parents):
        if (folder / "environments").is_dir():
            return folder / "environments"
    return here / "environments"


def root() -> Path:
    """The project: the nearest folder with a Pulumi.yaml, from the working directory upwards.

    Where there is none it is the checkout that gpupool runs from; without one, the working directory.
    """
    here = Path.cwd()
    for folder in (here, *here.parents, shipped.library()):
        if (folder / FILE).is_file():
            return folder
    return here


def make_private(folder: Path) -> None:
    """Make `folder`, and what is missing above it, for its owner alone.

    A folder .gpupool above it that others may enter, as earlier releases made it, is closed. Raises OSError,
    and GpupoolError where `folder` is another account's, which could have put files or links there.
    """
    for place in (*reversed(folder.parents), folder):
        try:
            place.mkdir(mode=0o700)
        except OSError:
            if not place.is_dir():
                raise
        if place.name == OWN and place.stat().st_mode & 0o077:
            place.chmod(0o700)
    there = folder.stat()
    if there.st_uid != os.geteuid():
        raise GpupoolError(f"{folder} belongs to account {there.st_uid}, not to yours; name another folder")
    if there.st_mode & 0o022:
        folder.chmod(there.st_mode & 0o755)
