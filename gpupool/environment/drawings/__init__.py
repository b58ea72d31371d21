"""Drawings for reports: one GPU and how it is shared, as characters and as SVG, and small bars.

`gpu` works out what there is to draw and is the only module that knows the sharing modes; `characters` and
`svg` draw it. Nothing here reads a plan, a report or a file, and nothing here decides where a MIG instance
goes: that is `gpupool.environment.sharing`.
"""

from gpupool.environment.drawings.bars import Bar, bars
from gpupool.environment.drawings.characters import characters, characters_before_and_after
from gpupool.environment.drawings.pools import drawable
from gpupool.environment.drawings.svg import svg

__all__ = ["Bar", "bars", "characters", "characters_before_and_after", "drawable", "svg"]
