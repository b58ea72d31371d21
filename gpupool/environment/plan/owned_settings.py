"""Which settings of the GPU Operator gpupool owns, and where somebody's settings give one of them.

The facts are in `owned_settings.yaml`; this is their only reader. Settings are Helm values, or the `spec` of
a ClusterPolicy, which is laid out like them. Whether a setting is refused, left out or shown is the caller's.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from gpupool.environment.spec.yaml_source import Loc, value_at

Undoing = Literal["never", "partitioned", "always"]
"""Whether a setting of an operator of somebody else's undoes the pools: all of them, or partitioned ones."""


@dataclass(frozen=True, slots=True)
class OwnedValue:
    """A value, by its path in Helm values."""

    path: tuple[str, ...]
    why: str
    foreign: Undoing = "never"
    harmless: tuple[Any, ...] = ()
    unless: tuple[tuple[str, ...], Any] | None = None
    """A path and the value there with which it says nothing."""
    left: bool = False
    """Whether it is the user's, as long as it does not undo the pools: gpupool derives none."""

    def undoes(self, settings: Any, partitioned: bool) -> bool:
        """Whether what the settings say there undoes the pools. `partitioned`: whether one of them is."""
        value = value_at(settings, self.path)
        if value is None or value in self.harmless or _excepted(self.unless, settings):
            return False
        return self.foreign == "always" or (self.foreign == "partitioned" and partitioned)


@dataclass(frozen=True, slots=True)
class OwnedVariable:
    """What a variable or an argument configures in operands."""

    operands: tuple[str, ...]
    variables: tuple[str, ...]
    arguments: tuple[str, ...]
    """Without dashes."""
    why: str
    foreign: Undoing = "never"
    same: tuple[str, ...] = ()
    """Values that gpupool would set itself."""
    platforms: tuple[str, ...] = ()
    unless: tuple[tuple[str, ...], Any] | None = None

    def applies(self, settings: Any, platform: str | None) -> bool:
        if self.platforms and platform is not None and platform not in self.platforms:
            return False
        return not _excepted(self.unless, settings)


@dataclass(frozen=True, slots=True)
class Setting:
    """An owned setting that some settings give."""

    name: str
    """The path of a value, or operand and variable or argument: `devicePlugin.env MIG_STRATEGY`."""
    locs: tuple[Loc, ...]
    """Where it is, from the settings' root. An argument may be apart from its value."""
    why: str
    same: bool
    """Whether it says what gpupool would."""
    foreign: Undoing


@functools.cache
def owned_values() -> tuple[OwnedValue, ...]:
    return tuple(
        OwnedValue(
            tuple(row["path"]),
            row["why"],
            row.get("foreign", "never"),
            tuple(row.get("harmless", ())),
            _exception(row),
            row.get("left", False),
        )
        for row in _data()["values"]
    )


@functools.cache
def owned_variables() -> tuple[OwnedVariable, ...]:
    return tuple(map(_variable, _data()["environment"]))


def given_variables(settings: Any, platform: str | None) -> Iterator[Setting]:
    """The owned variables and arguments that `settings` give. `platform`: of the environment, None where it
    is not known."""
    for owned in owned_variables():
        if not owned.applies(settings, platform):
            continue
        for operand in owned.operands:
            for name, value, locs in _environment(settings, operand):
                if name in owned.variables or (name.lstrip("-") in owned.arguments and name[:1] == "-"):
                    same = isinstance(value, str) and value in owned.same
                    kind = "args" if name[:1] == "-" else "env"
                    yield Setting(f"{operand}.{kind} {name}", locs, owned.why, same, owned.foreign)


def undoing(settings: Any, partitioned: bool) -> Iterator[Setting]:
    """What undoes the pools in settings of somebody else's operator. `partitioned`: whether a pool is."""
    undone = ("always", "partitioned") if partitioned else ("always",)
    for owned in owned_values():
        if owned.undoes(settings, partitioned):
            yield Setting(".".join(owned.path), (owned.path,), owned.why, False, owned.foreign)
    for setting in given_variables(settings, None):
        if setting.foreign in undone and not setting.same:
            yield setting


def _environment(settings: Any, operand: str) -> Iterator[tuple[str, Any, tuple[Loc, ...]]]:
    """(name, value, places) of an operand's variables, and of its arguments, whose names keep their
    dashes."""
    env = value_at(settings, (operand, "env"))
    for index, row in enumerate(env if isinstance(env, list) else ()):
        if isinstance(row, dict) and isinstance(row.get("name"), str):
            yield row["name"], row.get("value"), ((operand, "env", index),)
    if isinstance(env, dict):
        for name, value in env.items():
            yield str(name), value, ((operand, "env", name),)
    args = value_at(settings, (operand, "args"))
    texts = [str(text) for text in args] if isinstance(args, list) else []
    for index, text in enumerate(texts):
        name, equals, value = text.partition("=")
        loc: Loc = (operand, "args", index)
        if equals or index + 1 == len(texts) or texts[index + 1].startswith("-"):
            yield name, value or None, (loc,)
        else:
            yield name, texts[index + 1], (loc, (operand, "args", index + 1))


def _variable(row: Mapping[str, Any]) -> OwnedVariable:
    return OwnedVariable(
        operands=tuple(row["operands"]),
        variables=tuple(row["variables"]),
        arguments=tuple(row["arguments"]),
        why=row["why"],
        foreign=row.get("foreign", "never"),
        same=tuple(row.get("same", ())),
        platforms=tuple(row.get("platforms", ())),
        unless=_exception(row),
    )


def _exception(row: Mapping[str, Any]) -> tuple[tuple[str, ...], Any] | None:
    unless = row.get("unless")
    return (tuple(unless["path"]), unless["value"]) if unless else None


def _excepted(unless: tuple[tuple[str, ...], Any] | None, settings: Any) -> bool:
    return unless is not None and value_at(settings, unless[0]) is unless[1]


@functools.cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "owned_settings.yaml").read_bytes())
    return data
