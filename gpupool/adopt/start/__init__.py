"""A project of one's own: the files that `gpupool init` writes (`files`), made of what came with gpupool."""

from typing import Literal

Platform = Literal["local", "eks", "static"]
"""Where the first environment's nodes come from."""
