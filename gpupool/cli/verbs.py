"""The verbs of the command line, imported one at a time, when they are run or when help lists them.

`gpupool policy check` must not pay for what `gpupool up` imports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperGroup


def lazy_group(places: Mapping[str, str]) -> type[TyperGroup]:
    """A group class for `typer.Typer(cls=...)` whose commands are `places`: name to module.

    The module holds a function of the verb's name (`assert_` where Python keeps the name for itself), or
    `app`, a Typer with verbs of its own.
    """

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            # For lists and suggestions, which need the names alone.
            self.commands = cast("Any", dict.fromkeys(places))

        def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
            return _command(cmd_name, places[cmd_name]) if cmd_name in places else None

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


def command_of(module: str, names: Sequence[str]) -> Any:
    """The command of that name in a module's `app`; None where there is none."""
    commands = cast("TyperGroup", typer.main.get_command(import_module(module).app)).commands
    return commands.get(names[0]) if names else None
