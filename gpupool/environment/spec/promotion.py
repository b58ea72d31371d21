"""Where an environment's pools come from, as a section of the environment file; free of cross-checks.

The defaults of what is promoted and what stays are data: `gpupool/review/promote/shape.yaml`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from gpupool.environment.spec.field_types import Day, Hint, Model, Name, Text

SECTIONS = ("pools", "priorities", "policies", "queue", "gpuOperator", "karpenter")
"""The sections of an environment that a promotion may carry."""

_SECTIONS = f"{', '.join(SECTIONS[:-1])} or {SECTIONS[-1]}"
FieldPath = Annotated[
    str,
    StringConstraints(pattern=rf"^({'|'.join(SECTIONS)})(\.[^.\s]+)*$", max_length=400),
    Hint(f"a field's path that starts with {_SECTIONS}, such as pools.*.labels"),
]
"""A field and everything below it, such as `pools.notebooks.sharing`; `*` matches one name, as in
`pools.*.labels`."""


class PromotionException(Model):
    path: FieldPath
    """Field that may differ temporarily."""
    reason: Text
    """Why the change could not wait for its promotion."""
    owner: str | None = None
    """The owner of the exception."""
    until: Day
    """Last day of the exception."""


class Promotion(Model):
    from_: Annotated[Name | None, Field(alias="from")] = None
    """The environment that changes come from: the name of a file in this folder."""
    keep: list[FieldPath] = []
    """What is meant to differ here, in addition to sizes, instance types and other fields that are never
    promoted: a field, a pool that only this environment has, or a pool that it does not have."""
    follow: list[FieldPath] = []
    """Fields that are promoted although they are not by default."""
    exceptions: list[PromotionException] = []
    """Changes that were made here first. They may differ until their last day."""

    # `from` is asked for by `gpupool.environment.plan.checks.promotion`, with a better message than a missing
    # field has.
    model_config = ConfigDict(json_schema_extra={"required": ["from"]})
