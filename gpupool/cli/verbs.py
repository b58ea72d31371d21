"""The verbs of the command line, imported one at a time, when they are run or when help lists them.

`gpupool policy check` must not pay for what `gpupool up` imports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import typer
from typer.core import TyperGroup


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb as the list of all has it."""

    module: str
    """Imported when the verb is run."""
    summary: str
    """A sentence that fits on the verb's line, in 80 columns."""


def lazy_group(groups: Mapping[str, Mapping[str, Verb]], renamed: Mapping[str, str]) -> type[TyperGroup]:
    """A group class for `typer.Typer(cls=...)` with the commands of `groups`, by title and name. Each name in
    `renamed` is an earlier name of a verb, refused with its present name.

    The module holds a function of the verb's name (`assert_` where Python keeps the name for itself), or
    `app`, a Typer with verbs of its own.
    """

    places = {name: verb.module for verbs in groups.values() for name, verb in verbs.items()}
    width = max(map(len, places))

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            # For lists and suggestions, which need the names alone.
            self.commands = cast("Any", dict.fromkeys(places))

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name in renamed:
                ctx.fail(f"{cmd_name} is now called {renamed[cmd_name]}: gpupool {renamed[cmd_name]}")
            return _command(cmd_name, places[cmd_name]) if cmd_name in places else None

        def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
            """Each group with its sentences in full; nothing is imported for it."""
            for title, verbs in groups.items():
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(width), verb.summary) for name, verb in verbs.items()])

    return LazyGroup


class WholeSentences(TyperGroup):
    """A group of verbs of which help shows the first paragraph in full, broken between words."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, " ".join((command.help or "").split("\n\n")[0].split()))
            for name, command in commands
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _command(name: str, place: str) -> Any:
    """What typer makes of one verb. A group is made around it, because only groups keep names."""
    module = import_module(place)
    around = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    around.callback()(lambda: None)
    verb = getattr(module, name, None) or getattr(module, f"{name}_", None)
    if callable(verb):
        around.command(name)(verb)
    else:
        around.add_typer(module.app, name=name, cls=WholeSentences)
    return cast("TyperGroup", typer.main.get_command(around)).commands[name]


def command_of(module: str, names: Sequence[str]) -> Any:
    """The command of that name in a module's `app`; None where there is none."""
    commands = cast("TyperGroup", typer.main.get_command(import_module(module).app)).commands
    return commands.get(names[0]) if names else None
