"""`gpupool assert ENV`: the live cluster against the file, layer by layer, as text, JSON or metrics.

Thin: `gpupool.live.drift` finds what is wrong and how to fix it.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from gpupool.cli.findings.outputs import FindingFormat, write_report
from gpupool.cli.output import EnvArgument, print_error
from gpupool.cli.progress import progress
from gpupool.findings import exit_code

if TYPE_CHECKING:
    from gpupool.environment.plan.model import Plan
    from gpupool.live.cluster.kube_api import KubeApi
    from gpupool.live.drift.check import DriftCheck


AssertFormat = Literal[FindingFormat, "prometheus"]


def assert_(
    env: EnvArgument,
    format: Annotated[
        AssertFormat,
        typer.Option(
            "-o",
            "--format",
            help="text for people; json, sarif, junit or github for machines; prometheus for its collector.",
        ),
    ] = "text",
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write the output to FILE, atomically."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat, and print changes.")] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=1.0, help="Interval of --watch.")
    ] = 10.0,
    push: Annotated[
        str | None, typer.Option("--push", metavar="URL", help="Also push the metrics to a Pushgateway.")
    ] = None,
    record: Annotated[
        bool,
        typer.Option(
            "--record/--no-record",
            help="Record a known good state for `gpupool rollback`; skipped without write access.",
        ),
    ] = True,
) -> None:
    """Compare the live cluster with the environment file; exit 1 on drift, with the reason and
    remediation of each.

    Changes in progress (a starting node, an operator that partitions a GPU) are reported as settling. They
    count as drift only if they last.

    Example: gpupool assert prod --watch
    """
    from gpupool.environment.plan.resolve import read_plan
    from gpupool.environment.spec.load import find_environment
    from gpupool.live.cluster import access

    plan = read_plan(env)
    answer = _answer(str(find_environment(env)), format, output, push)
    if watch:
        _watch(env, plan, access.connect(plan), answer, every, record)
    with progress(f"assert {env}"):
        access.require_cluster(plan)
        outcome = _examine(env, plan, access.connect(plan), record)
    answer(outcome)
    raise typer.Exit(exit_code(drift.category for drift in outcome.drifts))


def _examine(env: str, plan: Plan, api: KubeApi, record: bool) -> DriftCheck:
    from gpupool.live.drift.check import assert_environment

    outcome = assert_environment(plan, api, env=env)
    if record and outcome.settled:
        _record(plan, api, outcome)
    return outcome


def _record(plan: Plan, api: KubeApi, outcome: DriftCheck) -> None:
    """Record the good state; skip silently without write access."""
    from gpupool.live.cluster.kube_api import ApiError
    from gpupool.live.rollback import last_good

    try:
        last_good.record(api, plan, plan.text, outcome.taken)
    except ApiError as error:
        if error.status not in (403, 404):
            raise


def _watch(
    env: str, plan: Plan, api: KubeApi, answer: Callable[[DriftCheck], None], every: float, record: bool
) -> NoReturn:
    """Compare until Ctrl-C; print a result, or an error, only when it differs from the last one."""
    from gpupool.live.cluster.kube_api import UnreachableError

    last: object = None
    while True:
        try:
            outcome = _examine(env, plan, api, record and last is None)
            now: object = [(d.layer, d.code, d.object, d.path, d.category) for d in outcome.drifts]
            if now != last:
                answer(outcome)
        except UnreachableError as error:
            now = str(error)
            if now != last:
                print_error(str(error))
        last = now
        time.sleep(every)


def _answer(
    file: str, format: AssertFormat, output: Path | None, push: str | None
) -> Callable[[DriftCheck], None]:
    """Print and push an outcome."""

    def answer(outcome: DriftCheck) -> None:
        from gpupool.live.drift import metrics

        if format == "prometheus":
            text = metrics.text(outcome)
        elif format != "text":
            stream = io.StringIO()
            write_report(outcome.finding_report(file), format, stream)
            text = stream.getvalue()
        else:
            from gpupool.cli import assertion_text

            text = assertion_text.text(outcome, output is None and sys.stdout.isatty())
        if output is not None:
            metrics.write(text, output)
        else:
            sys.stdout.write(text)
            sys.stdout.flush()
        if push is not None:
            metrics.push(outcome, push)

    return answer
