"""What gpupool prints as JSON: a pydantic model for each kind of object, read from the attributes of ours.

The fields of a model are the keys, in their order: `nodes_max` is printed as `nodesMax`. Keys are contracts,
so that each is written down, and an attribute without a field is not printed.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, TypeVar

from pydantic import AliasGenerator, AliasPath, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

T = TypeVar("T")
Number = int | float
"""Printed as it is: 16 is not 16.0."""


class JsonObject(BaseModel):
    model_config = ConfigDict(
        from_attributes=True, alias_generator=AliasGenerator(serialization_alias=to_camel)
    )

    @classmethod
    def of(cls, value: Any) -> dict[str, Any]:
        """`value` as values that JSON has."""
        return cls.model_validate(value).model_dump(mode="json", by_alias=True)


def read(path: str) -> Any:
    """A field that is read from another attribute, or from one of an attribute: `budget.usd`. None where
    there is nothing on the way."""
    return Field(default=None, validation_alias=AliasPath(*path.split(".")))


OrNull = Annotated[T | None, BeforeValidator(lambda value: value or None)]
"""Null where the value is empty."""
Share = Annotated[
    float, BeforeValidator(lambda share: float(share) if isinstance(share, Fraction) else share)
]
"""A fraction as a number."""
