"""The verb `report`: the effect of a change to the repository, for its reviewers."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpupool.cli.findings.outputs import FindingFormat, write_report
from gpupool.cli.progress import progress
from gpupool.findings import UsageError, exit_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpupool.environment.plan.model import Plan
    from gpupool.live.cluster.kube_api import KubeApi
    from gpupool.queue.simulate.figures import RunFigures
    from gpupool.review.report.model import Report


ReportFormat = Literal[FindingFormat, "markdown", "html"]


def report(
    env: Annotated[
        list[str] | None, typer.Argument(metavar="[ENV]...", help="Default: all environments.")
    ] = None,
    base: Annotated[str, typer.Option("--base", metavar="REF", help="Commit, branch or tag before.")] = "",
    head: Annotated[
        str | None,
        typer.Option("--head", metavar="REF", help="Commit, branch or tag after; default: the working tree."),
    ] = None,
    merge_base: Annotated[
        bool, typer.Option("--merge-base", help="Compare with the merge base, as pull requests do.")
    ] = False,
    live: Annotated[bool, typer.Option("--live", help="Ask clusters what runs on affected nodes.")] = False,
    cluster: Annotated[
        list[str] | None,
        typer.Option("--cluster", metavar="ENV", help="Ask one environment's cluster only; repeatable."),
    ] = None,
    cost_threshold: Annotated[
        float,
        typer.Option(
            "--cost-threshold", metavar="PERCENT", min=0, help="Cost increase that counts as a risk."
        ),
    ] = 20.0,
    today: Annotated[
        datetime | None,
        typer.Option("--today", formats=["%Y-%m-%d"], help="Date for the expiry of waivers; default: today."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Also simulate a job trace, as `simulate` does."),
    ] = None,
    map: Annotated[
        Path | None, typer.Option("--map", metavar="FILE", help="YAML: names in the trace -> names here.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write to FILE instead of stdout.")
    ] = None,
    format: Annotated[
        ReportFormat,
        typer.Option("-o", "--format", help="markdown for a comment, html for a page, sarif, ...: risks."),
    ] = "text",
) -> None:
    """Show how a change affects nodes, quotas, cost and policy.

    Example: gpupool report --base origin/main --format markdown
    """
    from gpupool.review.report.build import build
    from gpupool.review.report.git_states import project_folder, snapshots

    if not base:
        raise UsageError("--base is missing: name the state to compare with, such as --base origin/main")
    folder, names = project_folder(env or [])
    day = (today or datetime.now(UTC)).date()
    with (
        progress("report") as step,
        snapshots(folder, base, head, merge_base=merge_base) as (old, new),
    ):
        unknown = sorted(set(cluster or ()) - {*old.environments, *new.environments})
        if unknown:
            raise UsageError(f"--cluster {unknown[0]}: neither state has such an environment")

        def client(name: str, plan: Plan) -> KubeApi | None:
            if not live and name not in (cluster or ()):
                return None
            from gpupool.review.report.live import connect

            step(f"asking the cluster of {name}")
            return connect(plan)

        made = build(old, new, names, day, cost_threshold, step, client, _player(trace, map))
    text = _text(made, format, colour=output is None and sys.stdout.isatty())
    if output is None:
        sys.stdout.write(text)
    else:
        _write(output, text)
    raise typer.Exit(exit_code(finding.category for finding in made.finding_report().findings))


def _player(trace: Path | None, map: Path | None) -> Callable[[Plan], RunFigures] | None:
    """What runs the jobs of a trace on a Plan."""
    if trace is None:
        return None
    from gpupool.cli.queue.simulate import names, read_trace
    from gpupool.queue.simulate.numbers import numbers
    from gpupool.queue.simulate.run import Settings, simulate

    jobs = read_trace(trace, "auto", None, None, 1.0)
    settings = Settings(numbers(()), names=names(map))
    return lambda plan: simulate(plan, jobs, settings).figures


def _text(made: Report, format: ReportFormat, colour: bool) -> str:
    if format == "json":
        from gpupool.review.report.as_json import as_json

        return json.dumps(as_json(made), indent=2, ensure_ascii=False) + "\n"
    if format in ("sarif", "junit", "github"):
        stream = io.StringIO()
        write_report(made.finding_report(), format, stream)
        return stream.getvalue()
    if format == "markdown":
        from gpupool.review.report.markdown import comment

        return comment(made)
    if format == "html":
        from gpupool.review.report.html import page

        return page(made)
    from gpupool.review.report.text import text

    return text(made, colour=colour)


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output}: {error.strerror}; choose a writable file") from error
