"""The CEL library `semver` (version 1): semantic versions, parsed strictly or normalised first.

Facts: apiserver 0.36 pkg/cel/library/semverlib.go and blang/semver 4.0.0, whose messages these are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from vapcheck.cel.errors import CelError
from vapcheck.cel.libraries import costs
from vapcheck.cel.libraries.declaration import Overload, accepted_by, free, member
from vapcheck.cel.values import Opaque
from vapcheck.go_text import quote

_DIGITS = re.compile(r"[0-9]*")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]*")
_MAX_NUMBER = 2**64 - 1
Identifier = tuple[int, int, str]
"""One piece of a pre-release in its order: numbers (0, n, "") before words (1, 0, word)."""


@dataclass(frozen=True, slots=True, eq=False)
class Semver(Opaque):
    """A version; build metadata takes no part in order and equality."""

    type_name: ClassVar[str] = "kubernetes.Semver"
    major: int
    minor: int
    patch: int
    pre: tuple[Identifier, ...] = ()
    build: tuple[str, ...] = ()

    def key(self) -> tuple[object, ...]:
        """Its place among all versions: a pre-release comes before its release."""
        return self.major, self.minor, self.patch, not self.pre, self.pre

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        if self.pre:
            text += "-" + ".".join(word or str(number) for _, number, word in self.pre)
        return text + ("+" + ".".join(self.build) if self.build else "")


def parse_semver(text: str, normalize: bool = False) -> Semver:
    """A version; normalised, `v1.2` is taken for `1.2.0`. Raises CelError."""
    return _parse(_normalized(text) if normalize else text)


is_semver = accepted_by(parse_semver)


def _normalized(text: str) -> str:
    parts = [_without_zeros(part) for part in text.removeprefix("v").split(".", 2)]
    if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
        raise CelError("short version cannot contain PreRelease/Build meta data")
    return ".".join(parts + ["0"] * (3 - len(parts)))


def _without_zeros(part: str) -> str:
    if len(part.encode()) < 2:
        return part
    rest = part.lstrip("0")
    return rest if rest[:1] in tuple("0123456789") else "0" + rest


def _parse(text: str) -> Semver:
    if not text:
        raise CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    major, minor = _number("major", parts[0]), _number("minor", parts[1])
    rest, plus, build = parts[2].partition("+")
    rest, dash, pre = rest.partition("-")
    patch = _number("patch", rest)
    identifiers = tuple(map(_identifier, pre.split("."))) if dash else ()
    builds = tuple(build.split(".")) if plus else ()
    for word in builds:
        if not word:
            raise CelError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(word):
            raise CelError(f"Invalid character(s) found in build meta data {quote(word)}")
    return Semver(major, minor, patch, identifiers, builds)


def _number(name: str, text: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise CelError(f"Invalid character(s) found in {name} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise CelError(f"{name.capitalize()} number must not contain leading zeroes {quote(text)}")
    return _uint64(text)


def _identifier(text: str) -> Identifier:
    if not text:
        raise CelError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise CelError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return 0, _uint64(text), ""
    if not _IDENTIFIER.fullmatch(text):
        raise CelError(f"Invalid character(s) found in prerelease {quote(text)}")
    return 1, 0, text


def _uint64(digits: str) -> int:
    """Raises CelError with strconv's messages."""
    if not digits:
        raise CelError('strconv.ParseUint: parsing "": invalid syntax')
    if len(digits) > 20 or int(digits) > _MAX_NUMBER:
        raise CelError(f"strconv.ParseUint: parsing {quote(digits)}: value out of range")
    return int(digits)


def compare(left: Semver, right: Semver) -> int:
    """-1, 0 or 1."""
    one, other = left.key(), right.key()
    return (one > other) - (one < other)


def _as_int64(number: int) -> int:
    """A uint64 as the API server turns it into an int: it wraps."""
    return number - 2**64 if number >= 2**63 else number


_TYPE = Semver.type_name
_PAIR = (_TYPE, _TYPE)
OVERLOADS: tuple[Overload, ...] = (
    free("string_to_semver", "semver", ("string", _TYPE), parse_semver, costs.first),
    free("string_bool_to_semver", "semver", ("string", "bool", _TYPE), parse_semver, costs.first),
    free("is_semver_string", "isSemver", ("string", "bool"), is_semver, costs.first),
    free("is_semver_string_bool", "isSemver", ("string", "bool", "bool"), is_semver, costs.first),
    member("semver_is_greater_than", "isGreaterThan", (*_PAIR, "bool"), lambda a, b: compare(a, b) > 0),
    member("semver_is_less_than", "isLessThan", (*_PAIR, "bool"), lambda a, b: compare(a, b) < 0),
    member("semver_compare_to", "compareTo", (*_PAIR, "int"), compare),
    member("semver_major", "major", (_TYPE, "int"), lambda version: _as_int64(version.major)),
    member("semver_minor", "minor", (_TYPE, "int"), lambda version: _as_int64(version.minor)),
    member("semver_patch", "patch", (_TYPE, "int"), lambda version: _as_int64(version.patch)),
)
