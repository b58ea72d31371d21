"""`gpupool init`: the files of a new project, in the working directory.

Asks only where somebody sits at a terminal; what is written is decided in `gpupool.adopt.start.files`.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from gpupool.adopt.start import Platform
from gpupool.cli.output import FormatOption, print_json
from gpupool.findings import UsageError


def init(
    name: Annotated[str | None, typer.Option(help="Name of the first environment.  [default: dev]")] = None,
    platform: Annotated[
        Platform | None,
        typer.Option(
            help="local: simulated GPUs on this machine. eks: Karpenter starts AWS nodes. static: existing "
            "nodes.  [default: local]"
        ),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(help="GPU of the first pool; see `gpupool catalog`.  [default: t4]")
    ] = None,
    format: FormatOption = "text",
) -> None:
    """Create a project in this folder: Pulumi.yaml, an environment, policies, CI. Nothing is overwritten.

    Asks for missing options on a terminal; otherwise uses the defaults.

    Example: gpupool init --name dev --platform eks --gpu a10g
    """
    from gpupool.adopt.start import files

    asks = format == "text" and sys.stdin.isatty() and sys.stdout.isatty()
    answers = files.Answers(
        name=_answer(name, "Name of the first environment", "dev", asks),
        platform=_platform(_answer(platform, "Platform (local, eks, static)", "local", asks)),
        gpu=_answer(gpu, "GPU of the first pool", "t4", asks),
    )
    folder = Path.cwd()
    done = files.write(folder, files.files(answers))
    if format == "json":
        print_json({"folder": str(folder), **asdict(done)})
        return
    for path in done.written:
        print(f"written  {path}")
    for path in done.kept:
        print(f"kept     {path}")
    start = "gpupool local up && " if answers.platform == "local" else ""
    print(f"\nnext: gpupool show {answers.name}; {start}gpupool up {answers.name}")


def _platform(answer: str) -> Platform:
    if answer not in get_args(Platform):
        raise UsageError(f'unknown platform "{answer}"; use local, eks or static')
    return cast(Platform, answer)


def _answer(given: str | None, question: str, default: str, asks: bool) -> str:
    if given is not None:
        return given
    return str(typer.prompt(question, default=default)) if asks else default
