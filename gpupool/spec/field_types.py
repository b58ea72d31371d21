"""The words that the environment file is made of: names, labels, durations, money, and what a section is.

Shared by the modules that describe the file's sections; knows none of them.
"""

from __future__ import annotations

import re
from datetime import date
from ipaddress import ip_network
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from gpupool.address_secrets import secret_in
from gpupool.spec.yaml_scalars import Unclear
from gpupool.web_addresses import WrongAddress, literal_forbidden, parsed

_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_DNS_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_KEY = rf"^({_DNS_NAME}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
_LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"

Text = Annotated[str, StringConstraints(min_length=1)]
Name = Annotated[str, StringConstraints(pattern=_DNS_LABEL, max_length=63)]
NodeName = Annotated[str, StringConstraints(pattern=rf"^{_DNS_NAME}$", max_length=253)]
AccountName = Annotated[
    str, StringConstraints(pattern=rf"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/{_DNS_NAME}$", max_length=317)
]
LabelKey = Annotated[str, StringConstraints(pattern=_LABEL_KEY, max_length=317)]
LabelValue = Annotated[str, StringConstraints(pattern=_LABEL_VALUE)]
NodeFact = Annotated[str, StringConstraints(pattern=_LABEL_VALUE, min_length=1)]
"""What nodes are chosen by as the value of a label: a zone, an instance type (NodePool requirements)."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_SECONDS = (2**63 - 1) // 10**9
"""What Go's time.Duration, 64 bits of nanoseconds, can hold. Karpenter reads a longer one as no duration, and
then lists no pool at all (NodePool, 1.14.1)."""


def duration_seconds(text: str) -> int:
    """A duration of the file, such as 90s or 1h30m, in seconds."""
    return sum(int(number) * _SECONDS[unit] for number, unit in re.findall(r"([0-9]+)([smhd])", text))


_MEBIBYTES = {"Mi": 1, "Gi": 1024, "Ti": 1024**2}


def memory_mib(text: str) -> int:
    """An amount of memory of the file, such as 512Gi, in MiB."""
    return int(text[:-2]) * _MEBIBYTES[text[-2:]]


def _fits_go(longest: str) -> AfterValidator:
    """Refuses what is longer than Go can hold; `longest` says what may be written instead."""

    def fits(text: str) -> str:
        if duration_seconds(text) > _LONGEST_SECONDS:
            raise PydanticCustomError("duration_too_long", "at most {longest}", {"longest": longest})
        return text

    return AfterValidator(fits)


_HOURS = f"{_LONGEST_SECONDS // 3600}h"
# The length is for Python, which reads no number of thousands of digits.
Duration = Annotated[str, StringConstraints(pattern=r"^([0-9]+(s|m|h))+$", max_length=40), _fits_go(_HOURS)]
DurationOrNever = Annotated[
    str,
    StringConstraints(pattern=r"^(([0-9]+(s|m|h))+|Never)$", max_length=40),
    _fits_go(f'{_HOURS}, or "Never"'),
]
DurationWithDays = Annotated[
    str, StringConstraints(pattern=r"^([0-9]+(s|m|h|d))+$", max_length=40), _fits_go(_HOURS)
]
"""For what Kubernetes never reads."""
Version = Annotated[str, StringConstraints(pattern=r"^v?[0-9]+\.[0-9]+(\.[0-9]+)?([-+.][0-9A-Za-z.-]+)?$")]
AmiAlias = Annotated[
    str, StringConstraints(pattern=r"^(al2023|al2|bottlerocket)@[A-Za-z0-9._-]+$", max_length=30)
]
Uuid = Annotated[
    str, StringConstraints(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
]


def _no_secret(address: str) -> str:
    if part := secret_in(address):
        raise PydanticCustomError("secret_in_address", "{part} in an address", {"part": part})
    return address


PlainAddress = AfterValidator(_no_secret)
"""Refuses passwords and tokens in an address."""


def _callable(text: str) -> str:
    """Refuses a web address that nothing can call, or that no job may."""
    try:
        url = parsed(text)
    except WrongAddress as error:
        raise PydanticCustomError("web_address", "{problem}", {"problem": error.problem}) from error
    if literal_forbidden(url):
        raise PydanticCustomError("reserved_address", "an address that no job may call")
    return text


CALLABLE = AfterValidator(_callable)
"""Beside a pattern: a web address that can be called, of no address that hands out credentials."""
Origin = Annotated[
    str,
    StringConstraints(
        pattern=r"^https?://([a-z0-9]([-a-z0-9.]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$", max_length=300
    ),
    CALLABLE,
]
"""Scheme, host and port of a web address."""


def _network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        raise PydanticCustomError("network", "no network") from None


Network = Annotated[str, StringConstraints(max_length=49), AfterValidator(_network)]
"""Addresses in CIDR notation, such as 10.0.0.0/8."""
Image = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*[A-Za-z0-9]$", max_length=500)
]
Memory = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,8}(Mi|Gi|Ti)$")]
CheckpointPrefix = Annotated[
    str,
    StringConstraints(
        pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/"
        r"([A-Za-z0-9!_*'()=+@:,-][A-Za-z0-9!_.*'()=+@:,-]*/)*$",
        max_length=900,
    ),
]
"""A bucket, or folders of it, with a slash at the end; no part of it begins with a dot."""
Positive = Annotated[int, Field(ge=1, le=1_000_000)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Share = Annotated[float, Field(ge=0, le=1)]
Usd = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


def _as_date(value: Any) -> Any:
    """A date as the file has it, with or without quotes: here alone is a plain 2027-03-31 clear."""
    text = value.text if isinstance(value, Unclear) else value
    if isinstance(text, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        try:
            return date.fromisoformat(text)
        except ValueError:
            return text
    return value


Day = Annotated[date, BeforeValidator(_as_date)]


class Model(BaseModel):
    """What all parts of the file have in common: camelCase, no unknown field, no coercion, frozen."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
        # Else each model is built once by itself and again in all that contain it, at every start.
        defer_build=True,
    )


class Compute(Model):
    cpus: Positive
    """Number of CPUs."""
    memory: Memory
    """Amount of memory, such as 64Gi."""
