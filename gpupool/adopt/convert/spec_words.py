"""Whether a field of the environment file accepts a text, by the file's own types."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from gpupool.environment.spec.field_types import (
    AmiAlias,
    Duration,
    LabelKey,
    LabelValue,
    Name,
    NodeName,
    ReservationId,
    Version,
)

_ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "name": TypeAdapter(Name),
    "node name": TypeAdapter(NodeName),
    "label key": TypeAdapter(LabelKey),
    "label value": TypeAdapter(LabelValue),
    "duration": TypeAdapter(Duration),
    "AMI alias": TypeAdapter(AmiAlias),
    "version": TypeAdapter(Version),
    "reservation id": TypeAdapter(ReservationId),
}


def fits(form: str, value: Any) -> bool:
    """Whether `value` has the form that a key of the table above names."""
    try:
        _ADAPTERS[form].validate_python(value, strict=True)
    except ValidationError:
        return False
    return True
