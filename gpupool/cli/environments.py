"""The verbs that need no cluster: validate, plan, render."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gpupool.cli.output import (
    EnvArgument,
    FindingFormatOption,
    FormatOption,
    counted,
    print_error,
    print_json,
    print_line,
    print_table,
    print_text,
)
from gpupool.environment.catalog.models import PRICE_REGION
from gpupool.environment.plan.changes import wording
from gpupool.findings import (
    Finding,
    FindingReport,
    GpupoolError,
    SpecError,
    UsageError,
    exit_code,
    ready_files,
)

if TYPE_CHECKING:
    from gpupool.environment.plan.model import Plan, Pool
    from gpupool.environment.plan.pool_cost import MonthlyCost
    from gpupool.environment.plan.tenants import Tenant
    from gpupool.generators.manifest import Bundle
    from gpupool.generators.render import Differences
    from gpupool.infra.dry_run import DryRun

_NO_CHART = "not installed in the cluster: queue.chart does not name its chart and image"
_SHOWN = 10
"""Files that a rendering lists individually in its warning."""


def validate(
    env: Annotated[
        list[str] | None, typer.Argument(metavar="[ENV]...", help="Default: all environments.")
    ] = None,
    format: FindingFormatOption = "text",
) -> None:
    """Check environment files; report every error with its place. `policy check` reports warnings.

    Example: gpupool validate prod staging
    """
    from gpupool.cli.findings.outputs import write_report
    from gpupool.environment.plan.resolve import check_codes
    from gpupool.environment.project import environments_folder
    from gpupool.environment.spec.load import environment_names, find_environment
    from gpupool.findings.finding import INVALID_FILE

    names = env or environment_names()
    if not names:
        folder = environments_folder()
        raise UsageError(f"{folder}: no environments; add one, or run this command in another project")
    paths = [find_environment(name) for name in names]
    # What is wrong in the project's catalog is found again with each environment.
    findings = list(dict.fromkeys(finding for path in paths for finding in _findings(path)))
    named = ", ".join(path.stem for path in paths)
    report = FindingReport(
        command="validate",
        findings=tuple(findings),
        summary=f"{named}: {len(findings) or 'no'} finding{'s' if len(findings) != 1 else ''}",
        targets=tuple(map(str, paths)),
        judged=dict.fromkeys([INVALID_FILE, "objects-within-limits", *check_codes()], ""),
    )
    if format != "text":
        write_report(report, format)
    else:
        for finding in findings:
            print(finding)
        for ready in ready_files(findings):
            print(f"\n{ready}", end="")
        if not findings:
            print_line(f"{named}: valid")
    raise typer.Exit(exit_code(finding.category for finding in findings))


def _findings(path: Path) -> Sequence[Finding]:
    """What is wrong with the file, or else with what becomes of it."""
    from gpupool.environment.plan.policy_files import PolicyFileError
    from gpupool.environment.plan.resolve import resolve
    from gpupool.environment.spec.load import load
    from gpupool.generators import generate
    from gpupool.policy.gate import beyond_limits

    try:
        loaded = load(path)
        plan = resolve(loaded)
        return beyond_limits(loaded, plan, generate(plan))
    except SpecError as error:
        return error.findings
    except PolicyFileError as error:
        return [error.finding]


PlanFormat = Literal["text", "json", "env"]


def show(
    env: EnvArgument,
    format: Annotated[
        PlanFormat,
        typer.Option("--format", help="text for people, json for machines, env: slots as shell variables."),
    ] = "text",
) -> None:
    """Show an environment's plan: slices, quotas, cost.

    Example: gpupool show prod
    """
    from gpupool.environment.plan.plan_json import plan_json
    from gpupool.environment.plan.resolve import read_plan
    from gpupool.environment.plan.slot_variables import slot_variables

    resolved = read_plan(env)
    if format == "json":
        print_json(plan_json(resolved) | {"priceRegion": PRICE_REGION})
    elif format == "env":
        for name, value in slot_variables(resolved.pools).items():
            print(f"{name}={shlex.quote(value)}")
    else:
        _print_plan(resolved)


def render(
    env: EnvArgument,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Output folder.")],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; list stale and unknown files, and exit 1 if any.")
    ] = False,
    cluster: Annotated[
        bool,
        typer.Option("--cluster", help="With --check: also ask the cluster whether it accepts each object."),
    ] = False,
    monitoring: Annotated[
        Path | None,
        typer.Option(
            "--monitoring",
            metavar="DIR",
            help="Also write rules and dashboards here, for Prometheus and Grafana without operators.",
        ),
    ] = None,
    format: FormatOption = "text",
) -> None:
    """Write an environment's objects, one file each, with an index. If `delivery.engine` names Argo CD or
    Flux, also write the files that register the folder there.

    Example: gpupool render prod -o rendered/prod --check
    """
    from dataclasses import asdict

    from gpupool.environment.plan.resolve import read_plan
    from gpupool.generators import generate
    from gpupool.generators.render import check as compare
    from gpupool.generators.render import write

    if cluster and not check:
        raise UsageError("--cluster requires --check: writing a rendering asks no cluster")
    resolved = read_plan(env)
    bundle = generate(resolved)
    tried = _dry_run(resolved, bundle) if cluster else None
    try:
        differences = compare(bundle, output) if check else write(bundle, output)
        if monitoring is not None and not check:
            _write_plain(resolved, monitoring)
    except OSError as error:
        hint = "choose a readable folder" if check else "choose a writable folder"
        raise GpupoolError(f"{error.filename}: {error.strerror}; {hint}") from error
    found = asdict(differences)
    objects = len(bundle.manifests) + len(bundle.releases)
    if format == "json":
        answer = {"environment": bundle.environment, "output": str(output), "objects": objects, **found}
        print_json(answer | ({"cluster": _dry_run_json(tried)} if tried else {}))
    elif check:
        if tried:
            _print_dry_run(tried)
        for what, paths in found.items():
            for path in paths:
                print_error(f"{output / path}: {what}")
        if differences.stale:
            print_error(f"stale; run: gpupool render {env} -o {output}")
        if differences.unknown:
            print_error(_about_unknown(output))
        if not differences:
            print_line(f"{output}: up to date, {objects} objects")
    else:
        _warn_of_unknown(differences.unknown, output)
        written = len(differences.missing) + len(differences.changed)
        removed = f", {len(differences.extra)} removed" if differences.extra else ""
        print_line(f"{output}: {objects} objects, {written} files written{removed}")
        _print_start(bundle, output, differences)
        _print_lacking(resolved)
    if check and (differences or (tried and tried.refused)):
        raise typer.Exit(1)


def _dry_run(plan: Plan, bundle: Bundle) -> DryRun:
    from gpupool.cli.progress import progress
    from gpupool.infra.dry_run import dry_run
    from gpupool.live.cluster import access

    access.require_cluster(plan)
    with progress(f"dry run of {plan.environment}") as report:
        return dry_run(access.connect(plan), bundle, plan.delivery.by.managers[0], report)


def _dry_run_json(tried: DryRun) -> dict[str, Any]:
    return {
        "refused": [{"object": str(row.object), "message": row.message} for row in tried.refused],
        "untried": [str(manifest) for manifest in tried.untried],
    }


def _print_dry_run(tried: DryRun) -> None:
    for row in tried.refused:
        print_error(f"{row.object}: the cluster would refuse it: {row.message}")
    if tried.untried:
        print_line(
            f"{len(tried.untried)} objects can't be tried: their kind or namespace does not exist yet, "
            "or a change deletes and recreates them"
        )
    if not tried.refused:
        print("the cluster would accept the others")


def _write_plain(plan: Plan, folder: Path) -> None:
    from gpupool.generators.monitoring.objects import plain_files

    folder.mkdir(parents=True, exist_ok=True)
    for name, text in plain_files(plan).items():
        (folder / name).write_text(text, encoding="utf-8")


def _warn_of_unknown(paths: Sequence[str], output: Path) -> None:
    for path in paths[:_SHOWN]:
        print_error(f"{output / path}: unknown")
    if paths[_SHOWN:]:
        print_error(f"and {len(paths) - _SHOWN} more")
    if paths:
        print_error(_about_unknown(output))


def _about_unknown(output: Path) -> str:
    return (
        f"unknown: not in the index of {output}, and an engine that applies the folder may apply "
        "it too; delete it or move it"
    )


def _print_start(bundle: Bundle, output: Path, differences: Differences) -> None:
    """How to register the rendering with Argo CD or Flux, where one of them delivers it."""
    from gpupool.generators.delivery import is_registration, start

    command, delivery = start(bundle.delivery, str(output)), bundle.delivery
    if not command:
        return
    print_line(
        f"delivered by {delivery.engine} from {delivery.repo}; commit this folder there as {delivery.path}"
    )
    changed = (*differences.changed, *differences.extra)
    if any(is_registration(delivery, path) for path in changed):
        print_line(
            f"the registration has changed; in the cluster where {delivery.by.title} runs, run: {command}"
        )
    else:
        print_line(f"register it once, in the cluster where {delivery.by.title} runs: {command}")


def _print_plan(plan: Plan) -> None:
    from gpupool.environment.plan.pool_cost import total_monthly_cost
    from gpupool.generators.monitoring.exporter import shared_pools

    cost = _usd(total_monthly_cost(plan.pools))
    pools = f"{len(plan.pools)} pool{'s' if len(plan.pools) != 1 else ''}"
    print_line(f"{plan.environment}: {pools} on {plan.cluster.platform}, {cost} a month")
    print()
    columns = ("pool", "gpu", "sharing", "nodes", "gpus/node", "usd/month")
    print_table(columns, [_pool_row(pool) for pool in plan.pools], right=("gpus/node",), fit=True)
    if plan.pools:
        print()
        slices = [(pool.name, _counts(pool.slices_per_node), _counts(pool.slices_max)) for pool in plan.pools]
        print_table(("pool", "slices/node", "slices"), slices, fit=True)
    if elsewhere := _priced_elsewhere(plan):
        print()
        print_text(
            f"prices are those of {PRICE_REGION}, but the cluster is in {elsewhere}: see its price list"
        )
    if plan.tenants:
        print()
        rows = [_tenant_row(tenant) for tenant in plan.tenants]
        columns = ("tenant", "namespace", "weight", "max priority", "cpus", "gib")
        print_table(columns, rows, right=("weight", "cpus", "gib"), fit=True)
        print()
        print_table(("tenant", "quota"), [(tenant.name, _quota(tenant)) for tenant in plan.tenants], fit=True)
    for line in _overcommitted(plan):
        print()
        print_text(line)
    joining = list(_joining(plan))
    if joining:
        print()
        for line in joining:
            print_line(line)
    names = counted([pool.name for pool in shared_pools(plan)], "pools")
    if names and plan.uses_gpu_operator and plan.cluster.platform != "local":
        print()
        print_text(
            f"GPU metrics: to attribute use to pods of {names}, the exporter can see all processes of its "
            "node (hostPID)"
        )
    _print_lacking(plan)
    if plan.queue.enabled and plan.queue.engine == "builtin" and plan.cluster.platform != "local":
        chart = plan.queue.chart
        where = f"chart gpu-scheduler {chart.version} of {chart.repository}" if chart else _NO_CHART
        print()
        print_text(f"queue: {where}")
        if chart and plan.monitoring.prometheus_operator and plan.queue.metrics_key is None:
            print("its metrics are not scraped: queue.metricsKeySecretRef names no key for Prometheus")


def _print_lacking(plan: Plan) -> None:
    """What the owner of an operator of somebody else's has to set, which `gpupool doctor` compares with the
    cluster."""
    from gpupool.generators.emit import yaml_text
    from gpupool.generators.gpu_operator import lacking

    if plan.uses_gpu_operator and not plan.gpu_operator.install and (missing := lacking(plan)):
        print("\nthe owner of the GPU Operator must set these chart values:")
        print("".join(f"  {line}\n" for line in yaml_text(missing).splitlines()), end="")


def _overcommitted(plan: Plan) -> Iterator[str]:
    """What pools are meant to be granted more than once over."""
    from gpupool.environment.plan.capacity import overgranted

    for pool in plan.pools:
        grants = [tenant.grants[pool.name] for tenant in plan.tenants if pool.name in tenant.grants]
        for resource, (total, most) in overgranted(pool.slices_max, grants).items():
            granted = f"{total} of {most} {wording.resource_name(resource)}"
            yield f"{pool.name}: tenants are granted {granted} (overcommit)"


def _joining(plan: Plan) -> Iterator[str]:
    """What nodes that join pools later must be given, which nothing in the cluster does."""
    for pool in plan.pools:
        if plan.labelled_by_group(pool):
            yield f"{pool.name}: set these in its node group, as nothing else sets them:"
        elif pool.node_selector:
            yield f"{pool.name}: new nodes get these from their node group or the next gpupool up:"
        else:
            continue
        yield "  " + wording.node_group(plan, pool)


def _tenant_row(tenant: Tenant) -> tuple[str, ...]:
    share = tenant.requests
    compute = (f"{share.cpu_millis / 1000:g}", f"{share.memory_mib / 1024:.0f}") if share else ("-", "-")
    return (tenant.name, tenant.namespace, f"{tenant.weight:g}", tenant.max_priority or "-", *compute)


def _quota(tenant: Tenant) -> str:
    quota = _counts(tenant.quota) or "-"
    return f"{quota}, up to {_counts(tenant.quota_up_to)}" if tenant.up_to else quota


def _priced_elsewhere(plan: Plan) -> str | None:
    """The region of a cluster on AWS whose prices are not those of the catalog."""
    region = plan.cluster.region
    return region if plan.cluster.platform == "eks" and region != PRICE_REGION else None


def _pool_row(pool: Pool) -> tuple[str, ...]:
    from gpupool.environment.plan.pool_cost import monthly_cost

    alike = pool.one_size
    nodes = counted(pool.node_names, "nodes")
    if not alike:
        nodes = f"up to {pool.gpus_max} GPUs" + (f", {pool.warm} nodes warm" if pool.warm else "")
    elif not nodes:
        nodes = f"{pool.warm}-{pool.nodes_max}" if pool.capacities else f"up to {pool.nodes_max}"
    if len(pool.capacities) > 1:
        sides = ((side.max_nodes if alike else side.max_gpus, side.type) for side in pool.capacities)
        nodes += f" ({', '.join(f'{count} {capacity_type}' for count, capacity_type in sides)})"
    sizes = sorted({machine.gpus for machine in pool.machines})
    return (
        pool.name,
        pool.gpu.key,
        pool.sharing.mode,
        nodes,
        "/".join(str(size) for size in sizes),
        _usd(monthly_cost(pool)),
    )


def _counts(counts: Any) -> str:
    return ", ".join(f"{count} {name.removeprefix('nvidia.com/')}" for name, count in counts.items())


def _usd(cost: MonthlyCost | None) -> str:
    if cost is None:
        return "price unknown"
    return f"${cost.floor:,.0f} to ${cost.ceiling:,.0f}" if cost.ceiling else "$0"
