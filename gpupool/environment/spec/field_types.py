"""The words that the environment file is made of: names, labels, durations, money, and what a section is.

Shared by the modules that describe the file's sections; knows none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from ipaddress import ip_network
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from gpupool.environment.spec.yaml_scalars import Unclear
from gpupool.environment.web_addresses import WrongAddress, literal_forbidden, parsed
from gpupool.findings.address_secrets import secret_in

_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_DNS_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_KEY = rf"^({_DNS_NAME}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$"
_LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$"


@dataclass(frozen=True, slots=True)
class Hint:
    """Beside a pattern: what to write, for somebody who has written something else ("write ...")."""

    text: str


_LABEL_HINT = Hint("at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends")
_NAME_HINT = Hint("lower-case letters, digits and '-', a letter or digit at both ends")
Text = Annotated[str, StringConstraints(min_length=1)]
Name = Annotated[str, StringConstraints(pattern=_DNS_LABEL, max_length=63), _NAME_HINT]
ExtendedResource = Annotated[
    str,
    StringConstraints(
        pattern=rf"^{_DNS_NAME}/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$", max_length=253
    ),
    Hint("an extended resource other than GPUs, as domain/name: vpc.amazonaws.com/efa, rdma/hca"),
]
NodeName = Annotated[
    str,
    StringConstraints(pattern=rf"^{_DNS_NAME}$", max_length=253),
    Hint("a name: words of lower-case letters, digits and '-', joined by '.'"),
]
AccountName = Annotated[
    str,
    StringConstraints(pattern=rf"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/{_DNS_NAME}$", max_length=317),
    Hint("a service account as namespace/name"),
]
LabelKey = Annotated[
    str,
    StringConstraints(pattern=_LABEL_KEY, max_length=317),
    Hint("a label key such as team or example.com/team"),
]
LabelValue = Annotated[str, StringConstraints(pattern=_LABEL_VALUE), _LABEL_HINT]
NodeFact = Annotated[str, StringConstraints(pattern=_LABEL_VALUE, min_length=1), _LABEL_HINT]
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
Duration = Annotated[
    str,
    StringConstraints(pattern=r"^([0-9]+(s|m|h))+$", max_length=40),
    _fits_go(_HOURS),
    Hint("a duration such as 30s, 10m or 1h30m"),
]
DurationOrNever = Annotated[
    str,
    StringConstraints(pattern=r"^(([0-9]+(s|m|h))+|Never)$", max_length=40),
    _fits_go(f'{_HOURS}, or "Never"'),
    Hint('a duration such as 10m or 1h30m, or "Never"'),
]
DurationWithDays = Annotated[
    str,
    StringConstraints(pattern=r"^([0-9]+(s|m|h|d))+$", max_length=40),
    _fits_go(_HOURS),
    Hint("a duration such as 12h, 7d or 1h30m"),
]
"""For what Kubernetes never reads."""
Version = Annotated[
    str,
    StringConstraints(pattern=r"^v?[0-9]+\.[0-9]+(\.[0-9]+)?([-+.][0-9A-Za-z.-]+)?$"),
    Hint("a version such as v26.7.0, of a driver such as 595.91.07"),
]
AmiAlias = Annotated[
    str,
    StringConstraints(pattern=r"^(al2023|al2|bottlerocket)@[A-Za-z0-9._-]+$", max_length=30),
    Hint("an alias of Karpenter's for Linux, such as al2023@v20240625"),
]
ReservationId = Annotated[
    str,
    StringConstraints(pattern=r"^cr-[0-9a-z]+$", max_length=40),
    Hint("a reservation's id such as cr-0123456789abcdef0"),
]
Uuid = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"),
    Hint("a UUID in lower case such as 0b6f3c1e-5a0d-4c7e-9a54-2f1d7c3e8b90"),
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
        raise PydanticCustomError("reserved_address", "an address that jobs must not call")
    return text


CALLABLE = AfterValidator(_callable)
"""Beside a pattern: a web address that can be called, of no address that hands out credentials."""
Origin = Annotated[
    str,
    StringConstraints(
        pattern=r"^https?://([a-z0-9]([-a-z0-9.]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$", max_length=300
    ),
    CALLABLE,
    Hint("scheme, host and port alone, in lower case, such as https://models.example.com"),
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
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*[A-Za-z0-9]$", max_length=500),
    Hint("an image such as registry.example.com/team/app:1.0"),
]
PAUSE_IMAGE = (
    "registry.k8s.io/pause:3.10@sha256:ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a"
)
"""Does nothing; runs on every architecture and as any user. The digest is that of the index, as in Cilium's
sources (November 2026)."""
Memory = Annotated[
    str, StringConstraints(pattern=r"^[1-9][0-9]{0,8}(Mi|Gi|Ti)$"), Hint("an amount of memory such as 512Gi")
]
CheckpointPrefix = Annotated[
    str,
    StringConstraints(
        pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/"
        r"([A-Za-z0-9!_*'()=+@:,-][A-Za-z0-9!_.*'()=+@:,-]*/)*$",
        max_length=900,
    ),
    Hint(
        "a folder with a slash at its end, without empty parts or parts that begin with a dot, such as "
        "s3://models/team-vision/"
    ),
]
"""A bucket or a folder in it, with a slash at the end; no part begins with a dot."""
Positive = Annotated[int, Field(ge=1, le=1_000_000)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Share = Annotated[float, Field(ge=0, le=1)]
Usd = Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


def _clear(pattern: str, read: Callable[[str], Any]) -> BeforeValidator:
    """Reads what fits the pattern with or without quotes: where it alone is meant, plain text is clear."""

    def value_of(value: Any) -> Any:
        text = value.text if isinstance(value, Unclear) else value
        if isinstance(text, str) and re.fullmatch(pattern, text):
            try:
                return read(text)
            except ValueError:
                return text
        return value

    return BeforeValidator(value_of)


_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
Day = Annotated[date, _clear(_DAY, date.fromisoformat)]
Moment = Annotated[datetime, _clear(rf"{_DAY}T[0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}})?Z", datetime.fromisoformat)]
"""In UTC, to the minute or second."""


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
