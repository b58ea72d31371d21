"""The files of a new project, which `gpupool init` writes (`files`)."""

from typing import Literal

Platform = Literal["local", "eks", "static"]
"""Where the first environment's nodes come from."""
