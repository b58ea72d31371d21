"""The options of `gpupool jobs`: whom to ask, and the fields of a job, for `submit` and `rerun`.

Fields, types, bounds and help are the API's request's.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from gpupool.cli.queue.jobs import values
from gpupool.environment import schema
from gpupool.findings import UsageError

_F = TypeVar("_F", bound=Callable[..., Any])

ServerOption = Annotated[
    str | None,
    typer.Option("--server", help="The queue's address. [default: $GPUPOOL_URL or http://localhost:8021]"),
]
TenantOption = Annotated[
    str | None,
    typer.Option("--tenant", help="Name or id. [default: $GPUPOOL_TENANT, or the credential's only one]"),
]


@dataclass(frozen=True, slots=True)
class JobOption:
    """A field of the API's requests, and how it is typed."""

    field: str
    flag: str
    """Such as --gpus, or --a/--b for yes and no."""
    help: str
    type: Any = str
    metavar: str | None = None
    least: int | None = None
    value: Callable[[str, Any], Any] | None = None
    """Of the option's name and what was typed; raises UsageError. None: as it is."""

    @property
    def name(self) -> str:
        """As it is typed."""
        return self.flag.partition("/")[0]

    @property
    def label(self) -> str:
        """As messages call it whose values are in the form of the API."""
        return f"{self.name} (in seconds)" if self.value is values.seconds else self.name

    @property
    def parameter(self) -> inspect.Parameter:
        """Of the function that is the command."""
        option = typer.Option(self.flag, metavar=self.metavar, min=self.least, help=self.help)
        return inspect.Parameter(
            self.field,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[self.type | None, option],
        )


TYPED: Mapping[str, Mapping[str, Any]] = {
    "gpu_pool_requested": {"flag": "--pool"},
    "container_image": {"flag": "--image"},
    "target_url": {"flag": "--url", "metavar": "URL"},
    "request_json": {
        "flag": "--request", "help": "File with the JSON that is sent there; - for stdin.", "type": Path,
        "value": lambda _, file: values.content(file),
    },
    "gpu_count": {"flag": "--gpus"},
    "gpu_type": {"flag": "--gpu"},
    "isolation_level": {"flag": "--isolation"},
    "priority": {"flag": "--priority"},
    "project_id": {"flag": "--project"},
    "job_name": {"flag": "--name"},
    "env": {"flag": "--env", "metavar": "NAME=VALUE", "value": values.variables},
    "env_from_secrets": {"flag": "--env-from-secret", "metavar": "NAME"},
    "image_pull_secrets": {"flag": "--image-pull-secret", "metavar": "NAME"},
    "volumes": {
        "flag": "--volume", "help": "PersistentVolumeClaim and its mount path; may be repeated.",
        "metavar": "CLAIM:PATH[:ro]", "value": values.volumes,
    },
    "budget_limit_usd": {
        "flag": "--budget", "help": "Maximum cost of all attempts, in USD.", "value": values.usd,
    },
    "timeout_seconds": {
        "flag": "--timeout", "metavar": "DURATION", "type": str, "least": None, "value": values.seconds,
        "help": "Maximum run time of an attempt, such as 90m; default: the environment's.",
    },
    "deadline_seconds": {
        "flag": "--deadline", "metavar": "DURATION", "type": str, "least": None, "value": values.seconds,
    },
    "checkpoint_s3_path": {"flag": "--checkpoint", "metavar": "s3://..."},
    "callback_url": {"flag": "--callback-url", "metavar": "URL"},
    "depends_on": {"flag": "--after", "metavar": "JOB"},
    "depends_on_ended": {"flag": "--afterany", "metavar": "JOB"},
    "may_idle": {"flag": "--may-idle/--may-not-idle"},
}  # fmt: skip
"""Field -> what of its option does not follow from the request. Help lists these first, in this order."""
COMMAND = "container_command"
"""The field that is what is typed after all options."""
_SCHEMA = Path(schema.__file__).with_name("job.schema.json")
"""Of the API's request (`make schema`). Reading it takes no model, and nothing of the queue."""
_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool}


def _option(field: str, described: Mapping[str, Any]) -> JobOption:
    """The option for a field of the request: what follows from the request, and what TYPED says."""
    variants = {variant.get("type"): variant for variant in described.get("anyOf", [described])}
    repeated = not variants.keys().isdisjoint(("array", "object"))
    kind = next((name for name in variants if name in _TYPES), "string")
    flag, help = f"--{field.replace('_', '-')}", described.get("description", "")
    choices = variants[kind].get("enum") if kind in variants else None
    derived = JobOption(
        field,
        flag if kind != "boolean" else f"{flag}/--not-{flag.removeprefix('--')}",
        f"{help.rstrip('.')}; may be repeated." if repeated else help,
        list[str] if repeated else _TYPES[kind],
        "|".join(choices) if choices else None,
        variants[kind].get("minimum") if kind == "integer" else None,
        values.each_once if repeated else None,
    )
    return replace(derived, **TYPED.get(field, {}))


def _options() -> tuple[JobOption, ...]:
    properties = json.loads(_SCHEMA.read_text(encoding="utf-8"))["properties"]
    fields = [*TYPED, *(field for field in properties if field not in TYPED and field != COMMAND)]
    return tuple(_option(field, properties[field]) for field in fields)


OPTIONS = _options()
Options = Mapping[str, tuple[str, Any]]
"""Field of the request -> the option for it, and its value; None where it was not typed."""


def takes_fields(verb: _F) -> _F:
    """`verb`, whose `fields` are keyword arguments, with an option for each."""
    signature = inspect.signature(verb, eval_str=True)
    own = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    parameters = [*own[:1], *(option.parameter for option in OPTIONS), *own[1:]]
    vars(verb)["__signature__"] = signature.replace(parameters=parameters)
    verb.__annotations__.pop("fields", None)
    return verb


def given(fields: Mapping[str, Any], command: list[str] | None = None) -> Options:
    """All fields, those that were typed in the form of the API. Raises UsageError."""
    options: dict[str, tuple[str, Any]] = {COMMAND: ("COMMAND", command or None)}
    for option in OPTIONS:
        typed = fields.get(option.field)
        is_typed = typed not in (None, [])
        value = option.value(option.name, typed) if option.value and is_typed else typed
        options[option.field] = (option.label, value if is_typed else None)
    return options


class JobCommand(TyperCommand):
    """A command that takes no option twice: which one was meant is unknown."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for option in order:
            if option.param_type_name == "option" and not option.multiple and order.count(option) > 1:
                raise UsageError(
                    f"{'/'.join(option.opts + option.secondary_opts)} is given twice; give it once"
                )
        return super().parse_args(ctx, args)


def before_command(verb: Any, arguments: list[str]) -> list[str]:
    """Of what is typed after a verb, that which is not of a command at the end, but for its first word."""
    if verb is None:
        return arguments
    with verb.context_class(verb, resilient_parsing=True, **verb.context_settings) as context:
        if context.allow_interspersed_args:
            return arguments
        values, _, _ = verb.make_parser(context).parse_args(list(arguments))
    name = next(part.name for part in verb.params if part.param_type_name == "argument")
    command = values.get(name) or ()  # none either where an option is wrong: that is said later
    return arguments[: len(arguments) - len(command) + 1]
