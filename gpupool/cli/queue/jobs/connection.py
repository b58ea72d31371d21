"""Asking the queue for `gpupool jobs`: a client whose errors become messages.

The API speaks of headers and of fields of JSON, while people have typed options: messages name these. What
the queue says of itself, and that it does not answer, goes to stderr.
"""

from __future__ import annotations

import logging
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpupool.findings import GpupoolError, NoAnswer, UsageError
from gpupool.findings.address_secrets import secret_in

if TYPE_CHECKING:
    from gpupool.client import ApiError, Client, LostContact
    from gpupool.environment.spec.yaml_source import YamlSource

Given = Mapping[str, tuple[Any, ...]]
"""Field of the request -> the option for it, its value (None where it is not given), and the file that it is
from if it is no option."""

_OPTIONS = {"x-tenant-id": "--tenant or GPUPOOL_TENANT", "idempotency-key": "--idempotency-key", "id": "JOB"}
"""For what is in no body. Parameters of the query are called as their options."""
_WORDS = {"priority", "array", "retries", "preemptible", "id"}
"""Names that are ordinary words in a sentence."""
LOST_AFTER_S = 3600.0


LostAfterOption = Annotated[
    str | None,
    typer.Option(
        "--lost-after",
        metavar="DURATION",
        help="Go on asking a queue that gives no answer for so long, and then exit 3. [default: 1h]",
    ),
]


@contextmanager
def asked(
    server: str | None,
    tenant: str | None,
    given: Given | None = None,
    patient: bool = False,
    lost_after_s: float | None = None,
) -> Iterator[Client]:
    """A client; what it raises becomes a message. A `patient` one waits for a queue that is being started;
    `lost_after_s` is for those who wait for a job."""
    from gpupool.client import ApiError, Client, GpupoolClientError, LostContact, NotFound, NotSent

    connect_for, lost_after = 60.0 if patient else 3.0, lost_after_s or LOST_AFTER_S
    try:
        with (
            outages_said(),
            Client(server, tenant=tenant, connect_for=connect_for, lost_after=lost_after) as client,
        ):
            try:
                yield client
            finally:
                for notice in client.notices:
                    print(f"gpupool: {notice}", file=sys.stderr)
    except NotFound as error:
        raise UsageError(str(error)) from error
    except NotSent as error:
        raise UsageError(_with_options(str(error), given or {})) from error
    except ApiError as error:
        text = message(error, given or {})
        if error.no_answer and error.idempotency_key:
            text += f". {question(error.idempotency_key, server, tenant)}"
        raise (NoAnswer if error.no_answer else GpupoolError)(text) from error
    except LostContact as error:
        raise NoAnswer(f"{error}{_advice(error, server, tenant)}") from error
    except GpupoolClientError as error:
        raise GpupoolError(str(error)) from error


@contextmanager
def lasting() -> Iterator[None]:
    """Around what follows a job to its end: whatever stops it before is lost contact."""
    from gpupool.client import ApiError

    try:
        yield
    except ApiError as error:
        raise NoAnswer(f"{message(error, {})}; the job goes on") from error


def question(key: str, server: str | None, tenant: str | None) -> str:
    """How to ask what became of a submission."""
    options = ["--idempotency-key", key]
    command = shlex.join(["gpupool", "jobs", "list", *options, *(["--tenant", tenant] if tenant else [])])
    if server:
        command += f" --server {shlex.quote(server)}" if not secret_in(server) else ' --server "$GPUPOOL_URL"'
    return (
        f"Whether it was submitted is not known: `{command}` lists what was; the same command again with "
        f"{shlex.join(options)} makes no second job"
    )


def _advice(error: LostContact, server: str | None, tenant: str | None) -> str:
    from gpupool.client import NotReached

    if not isinstance(error, NotReached):
        key = error.idempotency_key
        return f". {question(key, server, tenant)}" if key else ""
    if error.refused and error.loopback:
        return "; start the queue with `gpupool serve`, or set GPUPOOL_URL"
    return "; check the address (--server or GPUPOOL_URL) and the network on the way there"


class _Stderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print(record.getMessage(), file=sys.stderr, flush=True)


@contextmanager
def outages_said() -> Iterator[None]:
    """Outages of the queue, as the client notes them, are lines on stderr."""
    log, handler = logging.getLogger("gpupool.client"), _Stderr()
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)


def message(error: ApiError, given: Given) -> str:
    """What the queue answered, with the options in place of the API's names."""
    rows = [_row(str(one.get("pointer")), str(one.get("detail")), given) for one in error.errors]
    if error.type == "invalid-request":  # its title speaks of fields
        lines = rows or [error.detail]
    else:
        lines = [str(error), *(f"  {row}" for row in rows[1:])]
    if error.type == "unauthenticated":
        lines[0] += "; set GPUPOOL_KEY to a valid API key or token"
    return _with_options("\n".join(lines), given)


def _with_options(text: str, given: Given) -> str:
    options = _OPTIONS | {name: option for name, (option, *_) in given.items() if option}
    names = "|".join(options.keys() - _WORDS)
    # Not within a value, which is in quotes, or in a path.
    return re.sub(rf"(?<![\w./'-])(?:{names})\b", lambda name: options[name[0].lower()], text, flags=re.I)


def _row(pointer: str, detail: str, given: Given) -> str:
    """One error; the pointer is `#/env/A`, `query state.0` or `header x-tenant-id`, and `#` for the whole."""
    match = re.match(r"(?:#/|query |header |path )([^/.]+)(?:[/.]([^/.]+))?", pointer)
    if not match:
        return detail
    name, part = match.groups()
    option, value, *file = given.get(name, (_OPTIONS.get(name, f"--{name}"), None))
    if file:
        return _of_file(file[0], pointer.removeprefix("#/").split("/"), detail)
    if isinstance(value, list | tuple):  # an item by what it is, and not by its number
        value = value[int(part)] if part and part.isdigit() and int(part) < len(value) else None
        part = None
    elif part and part.isdigit():
        part = None
    said = value if isinstance(value, str | int | float) else part  # of variables no value: it may be secret
    return f"{option}: {detail}" if said is None else f"{option} {said!r}: {detail}"


def _of_file(source: YamlSource, pointer: list[str], detail: str) -> str:
    """An error in a field of a file: `job.yaml:3:5: volumes[0].path: ...`."""
    from gpupool.environment.spec.yaml_source import path_text, value_at

    loc: list[str | int] = []
    for part in pointer:
        name = part.replace("~1", "/").replace("~0", "~")
        inner = value_at(source.data, loc)
        loc.append(int(name) if isinstance(inner, list) and name.isdigit() else name)
        if value_at(source.data, loc) is None and not (isinstance(inner, dict) and name in inner):
            loc.pop()  # what the file lacks, and words of the validator's own
            break
    line, column = source.place(tuple(loc))
    return f"{source.file}:{line}:{column}: {path_text(tuple(loc))}: {detail}"
