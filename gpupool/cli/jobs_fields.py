"""The options of `gpupool jobs`: whom to ask, and the fields of a job, one table for `submit` and `rerun`.

A test compares that with the API and the SDK. This module must not ask the queue.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from gpupool.cli import jobs_values
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
        return f"{self.name} (in seconds)" if self.value is jobs_values.seconds else self.name

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


OPTIONS = (
    JobOption("gpu_pool_requested", "--pool", "A pool, a GPU such as t4, mig, a MIG profile, or auto."),
    JobOption("container_image", "--image", "Container image."),
    JobOption("target_url", "--url", "Address that an HTTP job calls, instead of an image."),
    JobOption(
        "request_json", "--request", "File with the JSON that is sent there; - for stdin.", Path,
        value=lambda _, file: jobs_values.content(file),
    ),
    JobOption("gpu_count", "--gpus", "Whole GPUs; 1 where GPUs are shared or partitioned.", int, least=1),
    JobOption("gpu_type", "--gpu", "GPU model, as in `gpupool catalog`."),
    JobOption("isolation_level", "--isolation", "shared or exclusive."),
    JobOption("priority", "--priority", "critical, high, medium or low."),
    JobOption("project_id", "--project", "Name or id of a project."),
    JobOption("job_name", "--name", "A name for people."),
    JobOption(
        "env", "--env", "A variable; may be repeated.", list[str], "NAME=VALUE", value=jobs_values.variables
    ),
    JobOption(
        "env_from_secrets", "--env-from-secret", "Secret whose keys are variables; may be repeated.",
        list[str], "NAME", value=jobs_values.each_once,
    ),
    JobOption(
        "image_pull_secrets", "--image-pull-secret", "Secret for the image's registry; may be repeated.",
        list[str], "NAME", value=jobs_values.each_once,
    ),
    JobOption(
        "volumes", "--volume", "A PersistentVolumeClaim, and where it is mounted; may be repeated.",
        list[str], "CLAIM:PATH[:ro]", value=jobs_values.volumes,
    ),
    JobOption("budget_limit_usd", "--budget", "USD that it may cost.", float, value=jobs_values.usd),
    JobOption(
        "timeout_seconds", "--timeout", "How long it may run, such as 90m or 4h.", metavar="DURATION",
        value=jobs_values.seconds,
    ),
    JobOption(
        "deadline_seconds", "--deadline", "It expires where it has not started for so long.",
        metavar="DURATION", value=jobs_values.seconds,
    ),
    JobOption(
        "retries", "--retries", "Attempts after a failure of its own; by default none.", int,
        least=0,
    ),
    JobOption(
        "preemptible", "--preemptible/--not-preemptible", "Whether it may be stopped for others.", bool
    ),
    JobOption("checkpoint_s3_path", "--checkpoint", "Where it keeps checkpoints.", metavar="s3://..."),
    JobOption("shm_size", "--shm-size", "Size of /dev/shm, such as 8Gi; by default half of its memory."),
    JobOption("scratch_size", "--scratch-size", "Most that /scratch may hold, such as 50Gi."),
    JobOption("callback_url", "--callback-url", "Called when it has ended.", metavar="URL"),
    JobOption("array", "--array", "So many jobs alike.", int, least=1),
    JobOption(
        "depends_on", "--after",
        "Wait until this job, or all jobs of this array, have succeeded; may be repeated.",
        list[str], "JOB", value=jobs_values.each_once,
    ),
    JobOption(
        "depends_on_ended", "--afterany", "The same, but whether they succeed or not; may be repeated.",
        list[str], "JOB", value=jobs_values.each_once,
    ),
    JobOption("may_idle", "--may-idle/--may-not-idle", "It waits at times: never stop it as idle.", bool),
)  # fmt: skip
COMMAND = "container_command"
"""The field that is what is typed after all options."""
Options = Mapping[str, tuple[str, Any]]
"""Field of the request -> the option for it, and its value; None where it was not typed."""


def takes_fields(verb: _F) -> _F:
    """`verb`, whose `fields` are keyword arguments, with an option for each."""
    signature = inspect.signature(verb, eval_str=True)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    own = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own]
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
