"""`gpupool simulate ENV`: runs a job trace on an environment file, without a cluster. Arguments and printing
only."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpupool.cli.findings.outputs import write_report
from gpupool.cli.output import EnvArgument, FindingFormatOption, print_table
from gpupool.cli.progress import progress
from gpupool.environment.money import usd
from gpupool.findings import UsageError, exit_code

if TYPE_CHECKING:
    from gpupool.environment.plan.model import Plan
    from gpupool.queue.simulate.figures import RunFigures
    from gpupool.queue.simulate.run import Outcome, Sensitivity
    from gpupool.queue.simulate.trace import Names, Trace

QUEUE = "queue"
MOST_OF_QUEUE = 100_000
"""With --trace queue: number of jobs, newest first."""
TraceOption = Annotated[
    Path,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="A job table in a known format, a synthetic workload, or queue: its history.",
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", help="Random seed, for the loss of spot nodes.")]
WindowOption = Annotated[
    str | None,
    typer.Option(
        "--window", metavar="A..B", help="Only jobs submitted in this time since the first, as 7d..14d."
    ),
]
LoadOption = Annotated[
    float, typer.Option("--load", metavar="X", help="Divide the time between jobs by X.", min=0.001)
]
MapOption = Annotated[
    Path | None,
    typer.Option("--map", metavar="FILE", help="YAML: tenants, gpus, priorities in the trace -> names here."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Set a model parameter; simulate prints all of them."),
]
ZoneOption = Annotated[
    str | None, typer.Option("--zone", metavar="+HH:MM", help="Time zone of times without one in the trace.")
]
TraceFormatOption = Annotated[
    str, typer.Option("--trace-format", metavar="NAME", help="Format of the trace; auto: detect by header.")
]


def simulate(
    env: EnvArgument,
    trace: TraceOption,
    against: Annotated[
        str | None,
        typer.Option(
            "--against", metavar="ENV|REV", help="Also simulate another file, or this one at a commit."
        ),
    ] = None,
    seed: SeedOption = 1,
    repeat: Annotated[
        int, typer.Option("--repeat", metavar="N", min=1, max=1000, help="Number of random seeds.")
    ] = 1,
    window: WindowOption = None,
    load: LoadOption = 1.0,
    map: MapOption = None,
    set: SetOption = None,
    zone: ZoneOption = None,
    trace_format: TraceFormatOption = "auto",
    expect: Annotated[
        list[str] | None,
        typer.Option("--assert", metavar="CHECK", help="Such as 'wait.p95<10m'; exit 1 if it does not hold."),
    ] = None,
    sensitive: Annotated[
        bool, typer.Option("--sensitivity", help="Also halve and double each uncertain parameter.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write report.html and figures.json to DIR.")
    ] = None,
    format: FindingFormatOption = "text",
) -> None:
    """Simulate an environment file on a job trace, without a cluster.

    Runs the queue's scheduling, Karpenter's nodes and prices on a simulated clock, and shows GPU hours,
    waits, utilization and cost.

    Example: gpupool simulate prod --trace jobs.csv --assert 'wait.p95<10m'
    """
    from gpupool.environment.plan.resolve import read_plan
    from gpupool.environment.spec.load import find_environment
    from gpupool.queue.simulate import assertions, run
    from gpupool.queue.simulate.numbers import numbers

    expectations = [assertions.expectation(text) for text in expect or ()]
    settings = run.Settings(numbers(set or ()), seed, repeat, names(map))
    plans = [read_plan(env)]
    assertions.check(expectations, [tenant.name for tenant in plans[0].tenants])
    if against is not None:
        plans.append(_plan_of(env, against))
    with progress(f"simulate {env}") as notify:
        jobs = read_trace(trace, trace_format, zone, window, load)
        outcomes = [run.simulate(plan, jobs, settings, notify) for plan in plans]
        weak = run.sensitivity(plans[0], jobs, settings, notify) if sensitive else ()
    verdicts = assertions.judge(expectations, outcomes[0].figures)
    answer = _answer(jobs, settings, outcomes, weak, verdicts)
    if out is not None:
        _write(out, answer, outcomes, verdicts)
    report = assertions.finding_report(verdicts, str(find_environment(env)), answer)
    if format == "text":
        _print(jobs, settings, outcomes, weak, verdicts, out)
    else:
        write_report(report, format)
    raise typer.Exit(exit_code(finding.category for finding in report.findings))


def _plan_of(env: str, against: str) -> Plan:
    """Of another environment, or of this one at a commit. Raises UsageError, SpecError."""
    from gpupool.environment.plan.resolve import read_plan, resolve
    from gpupool.environment.spec.load import check_shape
    from gpupool.environment.spec.yaml_source import parse_source
    from gpupool.review.report.git_states import project_folder, snapshots

    try:
        return read_plan(against)
    except UsageError as unknown:
        folder, (name,) = project_folder([env])
        try:
            with snapshots(folder, against, None) as (state, _):
                content = state.environments.get(name)
                if content is not None:
                    read = check_shape(parse_source(str(state.path(name)), content))
                    plan = resolve(read, siblings=state.environments)
                    return replace(plan, environment=f"{name} at {against}")
        except UsageError as error:
            raise UsageError(f"--against {against}: {unknown}; and it is not a commit: {error}") from error
        raise UsageError(f"--against {against}: no environment {name} at that commit") from unknown


def read_trace(file: Path, format: str, zone: str | None, window: str | None, load: float) -> Trace:
    """The jobs that a command is about. Raises UsageError, GpupoolError."""
    from gpupool.queue.simulate import formats
    from gpupool.queue.simulate.trace import part_of

    if format not in ("auto", *formats.NAMES):
        raise UsageError(f"--trace-format {format}: use auto, {', '.join(formats.NAMES)}")
    part, distance = _window(window), _zone(zone)
    trace = _of_queue() if str(file) == QUEUE else formats.read(file, format, distance)
    return part_of(trace, part, load)


def _of_queue() -> Trace:
    """The jobs of the queue that GPUPOOL_URL names, as `gpupool jobs` does."""
    from gpupool.cli.queue.jobs.connection import asked
    from gpupool.cli.queue.jobs.export import over, trace_of

    with asked(None, None) as client:
        return trace_of(over(client, MOST_OF_QUEUE))


def _zone(text: str | None) -> timedelta | None:
    if text is None:
        return None
    match = re.fullmatch(r"([+-])(0[0-9]|1[0-4]):([0-5][0-9])", text)
    if match is None:
        raise UsageError(f"--zone {text!r}: write an offset such as +08:00")
    distance = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return -distance if match[1] == "-" else distance


def _window(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    from gpupool.environment.spec.field_types import duration_seconds

    match = re.fullmatch(r"((?:[0-9]{1,6}[smhd])+|0)\.\.((?:[0-9]{1,6}[smhd])+)", text)
    window = tuple(float(duration_seconds(part)) for part in match.groups()) if match else (0.0, 0.0)
    if window[0] >= window[1]:
        raise UsageError(f"--window {text!r}: write two durations since the first job, such as 7d..14d")
    return window[0], window[1]


def names(file: Path | None) -> Names:
    """What --map says. Raises UsageError."""
    from gpupool.queue.simulate.names_file import read_names

    return read_names(file)


def _answer(trace: Trace, settings: Any, outcomes: list[Outcome], weak: Any, verdicts: Any) -> dict[str, Any]:
    from gpupool.queue.simulate.as_json import as_json

    return as_json(trace, settings, outcomes, weak, verdicts)


def _write(out: Path, answer: dict[str, Any], outcomes: list[Outcome], verdicts: Any) -> None:
    import json

    from gpupool.queue.simulate.page import page

    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "figures.json").write_text(json.dumps(answer, indent=2) + "\n", encoding="utf-8")
        (out / "report.html").write_text(page(outcomes, verdicts), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {out}: {error.strerror}; choose a writable folder") from error


def _print(
    trace: Trace, settings: Any, outcomes: list[Outcome], weak: Any, verdicts: Any, out: Path | None
) -> None:
    from gpupool.queue.simulate import words
    from gpupool.queue.simulate.figures import spread
    from gpupool.queue.simulate.numbers import NUMBERS

    shown = [outcome.figures for outcome in outcomes]
    columns = ["", *(run.environment for run in shown)]
    tables = [dict(words.summary(run)) for run in shown]
    titles = list(dict.fromkeys(title for table in tables for title in table))
    print_table(columns, [[title, *(table.get(title, "-") for table in tables)] for title in titles])
    if len(shown) > 1:
        print(f"\nWith {shown[1].environment} in place of {shown[0].environment}:")
        for sentence in list(words.differences(*shown)) or ["nothing differs"]:
            print(f"- {sentence}")
    if trace.measured:
        print(f"\n{words.backtest(trace, shown[0])}")
    _print_groups(shown[0])
    _print_pools(shown[0])
    if shown[0].left_out:
        print()
    for row in shown[0].left_out:
        print(f"{row.jobs:>9,} jobs {words.left_out(row.reason)}")
    if settings.repeat > 1:
        print(f"\nOver {settings.repeat} seeds:")
        shown_names = ("served_gpu_hours", "wait.p95", "to_gpu.p95", "usd_month", "spot_losses")
        for name, text in words.spreads(shown_names, dict(spread(outcomes[0].runs))):
            print(f"  {name:<18} {text}")
    _print_sensitivity(shown[0], weak)
    print("\nModel parameters (--set):")
    for name, number in NUMBERS.items():
        mark = " (weak)" if number.weak else ""
        print(f"  {name}={settings.numbers[name]:g} {number.unit}{mark}: {number.source}")
    for verdict in verdicts:
        print(verdict)
    if out is not None:
        print(f"written: {out / 'report.html'}, {out / 'figures.json'}")


def _print_groups(run: RunFigures) -> None:
    from gpupool.queue.simulate import words

    rows = [
        (
            group.by, group.name, f"{group.jobs:,}", words.hours(group.served_gpu_hours),
            words.seconds(group.waits.p50), words.seconds(group.waits.p95), words.seconds(group.to_gpu.p95),
            usd(group.usd),
        )
        for group in run.groups
    ]  # fmt: skip
    sys.stdout.write("\n")
    columns = ("by", "of", "jobs", "GPU hours", "wait p50", "wait p95", "to GPU p95", "usd")
    print_table(columns, rows, right=columns[2:])


def _print_pools(run: RunFigures) -> None:
    from gpupool.queue.simulate import words

    rows = [
        (
            pool.name, f"{pool.gpus:g}", words.share(pool.utilisation), words.share(pool.ready),
            words.share(pool.fragmentation), f"{pool.launches:,}", usd(pool.usd),
            usd(pool.usd_idle),
        )
        for pool in run.pools
    ]  # fmt: skip
    sys.stdout.write("\n")
    columns = ("pool", "GPUs", "in use", "ready", "fragmented", "nodes started", "usd", "idle")
    print_table(columns, rows, right=columns[1:])
    for pool in run.pools:
        for passed in pool.passed:
            print(words.evidence(pool.name, passed))


def _print_sensitivity(run: RunFigures, weak: list[Sensitivity]) -> None:
    from gpupool.queue.simulate import words

    if not weak:
        return
    rows = [
        (
            row.name, *(
                f"{words.seconds(side.to_gpu.p95)}, {usd(side.usd_month)}"
                for side in (row.half, run, row.twice)
            ),
        )
        for row in weak
    ]  # fmt: skip
    print("\nTo GPU at p95, and cost of a month:")
    print_table(("uncertain parameter", "half", "as set", "twice"), rows)
