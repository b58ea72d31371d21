"""The verbs of the command line, imported one at a time, when they are run or when help lists them.

`gpupool policy check` must not pay for what `gpupool up` imports. This module must not import any verb
itself.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Commands(MutableMapping[str, Any]):
    """A group's commands by name, each made when it is first asked for. Names are known without imports."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _command(name, self._places[name])
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._places.setdefault(name, "")
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._made.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def lazy_group(places: Mapping[str, str]) -> type[TyperGroup]:
    """A group class for `typer.Typer(cls=...)` whose commands are `places`: name to module.

    The module holds a function of the verb's name (`assert_` where Python keeps the name for itself), or
    `app`, a Typer with verbs of its own.
    """

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = _Commands(places)

    return LazyGroup


def _command(name: str, place: str) -> Any:
    """What typer makes of one verb. A group is made around it, because only groups keep names."""
    module = import_module(place)
    around = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    around.callback()(lambda: None)
    verb = getattr(module, name, None) or getattr(module, f"{name}_", None)
    if callable(verb):
        around.command(name)(verb)
    else:
        around.add_typer(module.app, name=name)
    return cast("TyperGroup", typer.main.get_command(around)).commands[name]
