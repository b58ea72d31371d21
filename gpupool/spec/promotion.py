"""Where an environment's pools come from, as a section of the environment file; free of cross-checks.

The defaults of what is promoted and what stays are data: `gpupool/promote/shape.yaml`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from gpupool.spec.field_types import Day, Hint, Model, Name, Text

SECTIONS = ("pools", "priorities", "policies", "queue", "gpuOperator", "karpenter")
"""The sections of an environment that a promotion may carry."""

_SECTIONS = f"{', '.join(SECTIONS[:-1])} or {SECTIONS[-1]}"
FieldPath = Annotated[
    str,
    StringConstraints(pattern=rf"^({'|'.join(SECTIONS)})(\.[^.\s]+)*$", max_length=400),
    Hint(f"a field's path that starts with {_SECTIONS}, such as pools.*.labels"),
]
"""A field and all below it, as `pools.notebooks.sharing`; `*` is any one name, as in `pools.*.labels`."""


class PromotionException(Model):
    path: FieldPath
    """What may differ for now."""
    reason: Text
    """Why it could not wait for its turn."""
    owner: str | None = None
    """The owner of the exception."""
    until: Day
    """Last day on which it holds."""


class Promotion(Model):
    from_: Annotated[Name | None, Field(alias="from")] = None
    """The environment that changes come from: the name of a file beside this one."""
    keep: list[FieldPath] = []
    """What is meant to differ here, besides sizes, instance types and the like, which stay anyway: a field,
    a pool of this environment alone, or a pool that is not wanted here."""
    follow: list[FieldPath] = []
    """What would stay by default and is promoted here."""
    exceptions: list[PromotionException] = []
    """Changes that were made here first. They stay until their day has passed."""

    # `from` is asked for by `gpupool.plan.checks.promotion`, with a better message than a missing field has.
    model_config = ConfigDict(json_schema_extra={"required": ["from"]})
