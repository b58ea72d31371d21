"""`gpupool recommend ENV`: which single change to a file would serve its jobs better. Arguments and printing
only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpupool.cli.output import EnvArgument, FormatOption, print_answer, print_table
from gpupool.cli.progress import progress
from gpupool.cli.queue.simulate import (
    LoadOption,
    MapOption,
    SeedOption,
    SetOption,
    TraceFormatOption,
    TraceOption,
    WindowOption,
    ZoneOption,
    names,
    read_trace,
)
from gpupool.environment.money import usd

if TYPE_CHECKING:
    from gpupool.queue.simulate.recommend import Recommendations


def recommend(
    env: EnvArgument,
    trace: TraceOption,
    seed: SeedOption = 1,
    budget: Annotated[
        float, typer.Option("--budget", metavar="SECONDS", min=1, help="Time limit for trying changes.")
    ] = 60.0,
    window: WindowOption = None,
    load: LoadOption = 1.0,
    map: MapOption = None,
    set: SetOption = None,
    zone: ZoneOption = None,
    trace_format: TraceFormatOption = "auto",
    format: FormatOption = "text",
) -> None:
    """Simulate single changes to the file on a job trace, and show the best five as patches.

    Tries replicas, layouts, numbers of nodes, warm nodes, spot, grants and borrowing. Applies nothing, and
    says so if no change is better.

    Example: gpupool recommend prod --trace jobs.csv
    """
    from gpupool.environment.plan.resolve import read_plan
    from gpupool.environment.spec.load import find_environment
    from gpupool.queue.simulate import run
    from gpupool.queue.simulate.numbers import numbers
    from gpupool.queue.simulate.recommend import recommend as tried

    settings = run.Settings(numbers(set or ()), seed, 1, names(map))
    plan, file = read_plan(env), find_environment(env)
    with progress(f"recommend {env}") as notify:
        jobs = read_trace(trace, trace_format, zone, window, load)
        result = tried(plan, file, jobs, settings, budget, notify)
    print_answer(format, _as_json(result), lambda: _print(result))


def _as_json(result: Recommendations) -> dict[str, Any]:
    return {
        "version": 1,
        "tried": result.tried,
        "possible": result.possible,
        "before": result.before.model_dump(mode="json"),
        "proposals": [
            {
                "field": proposal.change.field,
                "before": proposal.change.before,
                "value": proposal.change.value,
                "score": proposal.score,
                "patch": proposal.patch,
                "after": proposal.figures.model_dump(mode="json"),
            }
            for proposal in result.proposals
        ],
    }


def _print(result: Recommendations) -> None:
    from gpupool.queue.simulate import words

    before = result.before
    rest = result.possible - result.tried
    print(f"{result.tried} changes tried" + (f"; {rest} more with a larger --budget" if rest else ""))
    if not result.proposals:
        print("No change is better: none shortens waits clearly at this cost, or lowers the cost clearly.")
        return
    rows = [("as it is", "", before)]
    rows += [
        (str(number), proposal.change.field, proposal.figures)
        for number, proposal in enumerate(result.proposals, 1)
    ]
    columns = ("", "change", "to GPU p95", "wait p95", "in use", "usd", "GPU hours")
    print_table(
        columns,
        [
            (
                title, field, words.seconds(run.to_gpu.p95), words.seconds(run.waits.p95),
                words.share(run.utilisation), usd(run.usd), words.hours(run.served_gpu_hours),
            )
            for title, field, run in rows
        ],
        right=columns[2:],
    )  # fmt: skip
    for number, proposal in enumerate(result.proposals, 1):
        print(f"\n{number}. {proposal.change.field}")
        for sentence in words.reasons(before, proposal.change.of):
            print(f"   {sentence}")
        print(proposal.patch.rstrip("\n"))
