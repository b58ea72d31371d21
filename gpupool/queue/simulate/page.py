"""A simulation as one HTML page that stands alone: pictures and tables, no script, nothing from outside."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gpupool.environment.drawings.page_style import page_style, style_source, visible
from gpupool.environment.drawings.quantiles import quantiles
from gpupool.environment.drawings.series import Steps, series
from gpupool.queue.simulate import words
from gpupool.queue.simulate.assertions import Verdict
from gpupool.queue.simulate.run import Outcome

FOLDER = Path(__file__).parent / "templates"
MOST_LINES = 6
"""Tenants with a line of their own: those with most jobs."""


def page(outcomes: Sequence[Outcome], verdicts: Sequence[Verdict]) -> str:
    """The whole page as text; ends with a line break."""
    style = page_style()
    figures = [outcome.figures for outcome in outcomes]
    return (
        _templates()
        .get_template("page.html.j2")
        .render(
            title=f"Simulation of {figures[0].jobs:,} jobs on {figures[0].environment}",
            verdicts=[str(verdict) for verdict in verdicts],
            differences=list(words.differences(*figures[:2])) if len(figures) > 1 else [],
            runs=[_run(number, outcome) for number, outcome in enumerate(outcomes)],
            style=Markup(style),  # noqa: S704 - our own file
            style_hash=style_source(style),
        )
    )


@functools.cache
def _templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, finalize=visible
    )
    templates.filters |= {"hours": words.hours, "seconds": words.seconds}
    return templates


def _run(number: int, outcome: Outcome) -> dict[str, Any]:
    run, record = outcome.figures, outcome.record
    by_tenant: dict[str, list[float]] = {}
    for job in record.jobs.values():
        if job.begun < inf:
            by_tenant.setdefault(job.tenant, []).append(job.to_gpu_s)
    most = dict(sorted(by_tenant.items(), key=lambda row: -len(row[1]))[:MOST_LINES])
    pools = [
        (
            name,
            Markup(  # noqa: S704 - drawn, with its words escaped
                series(
                    name,
                    [
                        Steps("GPUs held", line.at, line.held),
                        Steps("GPUs of nodes", line.at, line.on),
                        Steps("waiting jobs", line.at, line.queued),
                    ],
                    record.begin,
                    record.end,
                    max(line.gpus, max(line.on, default=0.0)),
                    f"pool-{number}-{place}",
                )
            ),
        )
        for place, (name, line) in enumerate(record.series.items())
    ]
    picture = quantiles(f"time to GPU on {run.environment}", most, f"times-{number}")
    return {
        "figures": run,
        "summary": words.summary(run),
        "times": Markup(picture),  # noqa: S704 - drawn, with its words escaped
        "pools": pools,
        "left_out": [f"{row.jobs:,} jobs {words.left_out(row.reason)}" for row in run.left_out],
    }
