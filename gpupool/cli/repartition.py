"""`gpupool repartition ENV POOL` and `gpupool rollback ENV`: changes of running nodes, and their reversal.

Arguments, confirmation and printing. `gpupool.live.repartition` changes nodes, `gpupool.live.rollback.run`
compares the file with the last good state.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpupool.cli.output import EnvArgument, Format, FormatOption, print_error, print_json, print_table
from gpupool.cli.progress import progress
from gpupool.findings import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpupool.environment.plan.model import Plan
    from gpupool.live.repartition.result import RepartitionResult
    from gpupool.live.repartition.run import RepartitionOptions
    from gpupool.live.rollback.last_good import LastGood

EvictOption = Annotated[
    bool, typer.Option("--evict", help="Evict jobs, within their grace periods and disruption budgets.")
]
NowOption = Annotated[bool, typer.Option("--now", help="Ignore the maintenance window.")]
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait for the maintenance window.")]
TimeoutOption = Annotated[
    str | None,
    typer.Option("--timeout", metavar="TIME", help="Time limit of the operator per node, such as 15m."),
]


def repartition(
    env: EnvArgument,
    pool: Annotated[str, typer.Argument(metavar="POOL", help="A pool of ENV.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the order and expected duration; change nothing.")
    ] = False,
    evict: EvictOption = False,
    now: NowOption = False,
    wait: WaitOption = False,
    rollback: Annotated[bool, typer.Option("--rollback", help="Undo an unfinished repartition.")] = False,
    timeout: TimeoutOption = None,
    format: FormatOption = "text",
) -> None:
    """Apply a changed layout, replica count or sharing mode to a pool's running nodes, one after the other.
    For each node: cordons it, waits for its jobs, relabels it, verifies its slices and uncordons it; at most
    maintenance.maxUnavailable nodes at once. A node that fails is rolled back, and the other nodes stay
    unchanged. After an interruption, run the command again to continue.

    Example: gpupool repartition prod inference-h100 --dry-run
    """
    from gpupool.environment.plan.resolve import read_plan
    from gpupool.live.cluster import access
    from gpupool.live.repartition import run

    if dry_run and rollback:
        raise UsageError("--dry-run does not show a rollback; give --rollback or --dry-run, not both")
    plan = read_plan(env)
    run.pool_of(plan, pool)
    options = _options(evict, now, wait, rollback, timeout)
    with progress(f"repartition {env} {pool}") as notify:
        access.require_cluster(plan)
        api = access.connect(plan)
        if dry_run:
            result = run.dry_run(api, plan, pool, options)
        else:
            if not rollback:
                _judge(env, plan)
            result = run.repartition(api, plan, pool, options, notify)
    if format == "json":
        print_json(result.as_dict())
    else:
        _show(result)
    if not result.status.succeeded:
        raise typer.Exit(130 if result.status == "interrupted" else 1)


def rollback(
    env: EnvArgument,
    write: Annotated[
        bool, typer.Option("--write", help="Also restore the environment file of the good state.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="N|DIGEST", help="An earlier good state; default: 1, the newest."),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the stored good states.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
    evict: EvictOption = False,
    now: NowOption = False,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    format: FormatOption = "text",
) -> None:
    """Return the cluster to the last state that `gpupool assert` found good, or to an earlier one.

    Shows the differences, then rolls back running nodes pool by pool and applies the rest as `up` does. If
    Argo CD or Flux delivers the environment, use --write, then render and commit the file.

    Example: gpupool rollback prod --write
    """
    from gpupool.environment.plan.resolve import read_plan
    from gpupool.environment.spec.load import find_environment
    from gpupool.live.cluster import access
    from gpupool.live.rollback import run as back

    file = find_environment(env)
    options = _options(evict, now, wait, False, timeout)
    plan = read_plan(env)
    access.require_cluster(plan)
    api = access.connect(plan)
    if list_:
        _list(back.states(api, plan.environment), format)
        return
    rollback_plan = back.prepare(api, file, plan.environment, to)
    with back.unpacked(rollback_plan.state) as good_file:
        good = read_plan(str(good_file))
        _judge(env, good)
        if format == "text":
            sys.stdout.write(
                "\n".join((*rollback_plan.difference, ""))
                if rollback_plan.difference
                else "the file matches that state\n"
            )
        gitops = good.delivery.engine != "pulumi"
        if gitops and not write:
            print_error(f"{good.delivery.engine} applies what Git says; use --write, then render and commit")
            raise typer.Exit(2)
        if not yes:
            _consent(env, rollback_plan.state.found.isoformat(timespec="minutes"))
        results = [] if gitops else _apply(env, api, good, str(good_file), options)
    written = (
        [str(path) for path in back.write_back(rollback_plan)] if write and _all_succeeded(results) else []
    )
    _print_rollback(env, rollback_plan, results, written, gitops, format)


def _list(states: Sequence[LastGood], format: Format) -> None:
    """The kept states by number, as `--to` takes them."""
    rows = [(number, f"{one.found:%Y-%m-%d %H:%M}", one.digest[:12]) for number, one in enumerate(states, 1)]
    if format == "json":
        print_json(
            [
                {"number": n, "found": one.found.isoformat(timespec="seconds"), "digest": one.digest}
                for n, one in enumerate(states, 1)
            ]
        )
    else:
        print_table(("", "found good (UTC)", "digest"), rows)


def _apply(env: str, api: Any, good: Plan, file: str, options: RepartitionOptions) -> list[RepartitionResult]:
    """Nodes first, then everything else."""
    from gpupool.infra import stack
    from gpupool.live.rollback import run as back

    with progress(f"rollback {env}") as notify:
        results = back.nodes_back(api, good, options, notify)
        if _all_succeeded(results):
            stack.up(stack.read(file), report=notify)
    return results


def _print_rollback(
    env: str,
    rollback_plan: Any,
    results: list[RepartitionResult],
    written: list[str],
    gitops: bool,
    format: Format,
) -> None:
    succeeded = _all_succeeded(results)
    if format == "json":
        print_json(
            {
                "environment": rollback_plan.state.environment,
                "found": rollback_plan.state.found.isoformat(timespec="seconds"),
                "digest": rollback_plan.state.digest,
                "difference": list(rollback_plan.difference),
                "pools": [result.as_dict() for result in results],
                "written": written,
                "done": succeeded and not gitops,
            }
        )
    else:
        for result in results:
            _show(result)
        for path in written:
            print(f"{path}: written")
        if succeeded and not gitops:
            state = rollback_plan.state
            print(f"{state.environment}: back at the state of {state.found:%Y-%m-%d %H:%M} UTC")
        if gitops:
            print(f"now: gpupool render {env} -o <folder>, and commit both")
        elif succeeded and not written and rollback_plan.difference:
            print(
                "the file still has the newer state, and the next `up` would apply it; --write restores "
                "the file"
            )
    if not succeeded:
        raise typer.Exit(130 if results[-1].status == "interrupted" else 1)


def _all_succeeded(results: list[RepartitionResult]) -> bool:
    return all(result.status.succeeded for result in results)


def _consent(env: str, when: str) -> None:
    if not sys.stdin.isatty():
        print_error(f"rollback changes running nodes of {env}; use --yes in scripts")
        raise typer.Exit(2)
    typer.confirm(f"Return {env} to the state of {when}?", abort=True)


def _judge(env: str, plan: Plan) -> None:
    """Policy first, as for `up`. Raises PolicyRefusalError."""
    from datetime import UTC, datetime

    from gpupool.policy import gate as policy_gate

    policy_gate.require(env, policy_gate.judge(plan, datetime.now(UTC).date()))


def _options(evict: bool, now: bool, wait: bool, rollback: bool, timeout: str | None) -> RepartitionOptions:
    from gpupool.environment.spec.field_types import duration_seconds
    from gpupool.live.repartition.run import RepartitionOptions

    if now and wait:
        raise UsageError("--now ignores the maintenance window and --wait waits for it; use one of them")
    if timeout is not None and not re.fullmatch(r"[1-9][0-9]*[smh]", timeout):
        raise UsageError(f"--timeout {timeout}: expected a duration such as 90s, 15m or 1h")
    seconds = float(duration_seconds(timeout)) if timeout else None
    return RepartitionOptions(evict=evict, now=now, wait=wait, rollback=rollback, timeout=seconds)


def _show(result: RepartitionResult) -> None:
    if result.estimate is not None:
        columns = ("batch", "node", "jobs", "wait", "change")
        rows = [
            (row.batch, row.node, row.jobs, _time(row.wait_seconds), _time(row.change_seconds))
            for row in result.estimate.nodes
        ]
        print_table(columns, rows, right=("batch", "jobs"))
        least = "at least " if result.estimate.open_end else ""
        print(f"\nexpected: {least}{_time(result.estimate.seconds)} (the operator's time is an estimate)")
    elif result.rows:
        print_table(("node", "offers", "state"), [(row.node, row.shape, row.state) for row in result.rows])
    print(f"{result.environment} {result.pool}: {result.status}")
    for note in result.notes:
        print(f"note: {note}")


def _time(seconds: float | None) -> str:
    """Seconds in a readable form; a job without deadline has no known end."""
    if seconds is None:
        return "no deadline"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
