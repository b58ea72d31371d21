"""Environment x catalog -> Plan: every default filled, every cross-check done, every finding at once.

The only maker of Plans. Reads files through `load` and adds no rule of its own: what is refused is in
`gpupool.environment.plan.checks`, what is computed in `gpupool.environment.plan.capacity` and
`gpupool.environment.sharing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path, PurePosixPath

from gpupool.environment.catalog.load import Catalog
from gpupool.environment.catalog.project import read_catalog, ready_file
from gpupool.environment.plan import model as plan
from gpupool.environment.plan.capacity import grant_slices, share_of, up_to_slices
from gpupool.environment.plan.checks import CHECKS, CheckContext, PlanProblem, Siblings
from gpupool.environment.plan.delivery import ENGINE_FACTS, PULUMI, Delivery
from gpupool.environment.plan.platforms import PLATFORMS, has_existing_nodes
from gpupool.environment.plan.policies import Policies, PolicyLimits
from gpupool.environment.plan.policy_files import policy_files
from gpupool.environment.plan.pools import resolve_pool
from gpupool.environment.plan.queue import queue_settings
from gpupool.environment.plan.tenants import NOTHING, MachineShare, Tenant
from gpupool.environment.spec import environment as spec
from gpupool.environment.spec import tenants as spec_tenants
from gpupool.environment.spec.field_types import duration_seconds
from gpupool.environment.spec.gaps import Gaps
from gpupool.environment.spec.load import Loaded, find_environment, load
from gpupool.environment.spec.tenants import Project
from gpupool.environment.spec.yaml_source import Loc
from gpupool.findings import Finding, SpecError

_SIZE_FIELDS: tuple[Loc, ...] = (
    ("gpu",),
    ("sharing",),
    ("nodes", "instanceTypes"),
    ("nodes", "max"),
    ("nodes", "maxGpus"),
    ("nodes", "names"),
    ("nodes", "gpus"),
)
"""The fields that define a pool's size: where one of these is broken, nothing is compared with the size."""


def read_plan(env: str) -> plan.Plan:
    """The Plan of ENV, an environment's name or a file's path. Raises UsageError, SpecError."""
    return resolve(load(find_environment(env)))


def findings_of(path: Path) -> tuple[Finding, ...]:
    """Everything that is wrong with the file at `path`, in its order; empty where it is sound."""
    try:
        resolve(load(path))
    except SpecError as error:
        return error.findings
    return ()


def check_codes() -> tuple[str, ...]:
    """The code of every check: subject and name, as `pools-instance-types`."""
    return tuple(map(check_code, CHECKS))


def check_code(check: Callable[..., object]) -> str:
    """The code of what one check finds."""
    subject = check.__module__.rpartition(".")[2]
    return f"{subject}-{check.__name__}".replace("_", "-")


def resolve(loaded: Loaded, catalog: Catalog | None = None, siblings: Siblings | None = None) -> plan.Plan:
    """The Plan of a loaded file. Raises SpecError with the findings of shape and meaning together.

    Without a `catalog` it is that of the file's project. `siblings` are the environments of its project where
    the file is of another state than the one on disk; without them those that lie beside it are read.
    """
    if loaded.environment is None:
        raise SpecError(loaded.findings)
    of_catalog: tuple[Finding, ...] = ()
    if catalog is None:
        catalog, of_catalog = read_catalog(Path(loaded.source.file))
    context = _context(loaded, loaded.environment, catalog, siblings)
    of_checks = [
        replace(
            loaded.finding(problem.loc, problem.message, problem.remediation, check_code(check)),
            ready=problem.ready,
        )
        for check in CHECKS
        for problem in check(context)
        if not _rests_on_gaps(problem, loaded.gaps)
    ]
    findings = [*of_catalog, *loaded.findings, *of_checks]
    if findings:
        raise SpecError(findings)
    return _plan(context, loaded.source.text)


def _rests_on_gaps(problem: PlanProblem, gaps: Gaps) -> bool:
    """Whether `problem` only follows from what was left out: that is not a second mistake."""
    if problem.judged_by:
        return any(gaps.covers(loc) for loc in problem.judged_by)
    return gaps.touches(problem.loc) or gaps.has_unknown_field_at(problem.loc)


def _context(
    loaded: Loaded, environment: spec.Environment, catalog: Catalog, siblings: Siblings | None
) -> CheckContext:
    """What checks judge by. A pool whose size is unknown or impossible is not among its pools."""
    platform = environment.cluster.platform
    pools: dict[str, plan.Pool] = {}
    for index, pool in enumerate(environment.pools):
        if any(loaded.gaps.touches(("pools", index, *path)) for path in _SIZE_FIELDS):
            continue
        resolved = resolve_pool(pool, catalog, has_existing_nodes(platform, pool.nodes), platform)
        if resolved is not None:
            pools.setdefault(pool.name, resolved)  # two pools of one name: a check reports the second
    named = {section: frozenset(loaded.named(section)) for section in ("pools", "tenants", "priorities")}
    file = Path(loaded.source.file)
    return CheckContext(
        environment=environment,
        catalog=catalog,
        pools=pools,
        named=named,
        gaps=loaded.gaps,
        file_stem=file.stem if file.suffix == ".yaml" else None,
        policy_files=policy_files(file),
        new_gpu=partial(ready_file, environment=file),
        siblings=_siblings(file, siblings),
    )


def _siblings(file: Path, given: Siblings | None) -> Siblings | None:
    """The environments of the file's project: `given`, or those that lie beside the file. None where the file
    is in no project's folder, or is the only one there, as in a pod."""
    if file.resolve().parent.name != "environments":
        return None
    if given is not None or not file.is_file():
        return given
    beside = {path.stem: path for path in file.parent.glob("*.yaml") if path.is_file()}
    return beside if len(beside) > 1 else None


def _plan(context: CheckContext, text: str) -> plan.Plan:
    environment = context.environment
    cluster = environment.cluster
    return plan.Plan(
        environment=environment.metadata.name,
        cluster=cluster,
        gpu_operator=environment.gpu_operator,
        karpenter=_karpenter(environment) if _starts_nodes(environment) else None,
        pools=tuple(context.pools.values()),
        priorities=tuple(environment.priorities),
        tenants=tuple(_tenant(tenant, context) for tenant in environment.tenants),
        monthly_usd_max=environment.cost.monthly_usd_max,
        monitoring=environment.monitoring,
        queue=queue_settings(environment),
        policies=_policies(context),
        delivery=_delivery(environment),
        assertion=environment.monitoring.assertion,
        text=text,
    )


def _starts_nodes(environment: spec.Environment) -> bool:
    """Whether Karpenter starts nodes for the environment, or will for the pools that it gets."""
    pools, platform = environment.pools, environment.cluster.platform
    started = any(not has_existing_nodes(platform, pool.nodes) for pool in pools)
    return PLATFORMS[platform].karpenter and (started or not pools)


def _karpenter(environment: spec.Environment) -> spec.Karpenter:
    karpenter = environment.karpenter
    return karpenter.model_copy(update={"discovery_tag": karpenter.discovery_tag or environment.cluster.name})


def _tenant(tenant: spec_tenants.Tenant, context: CheckContext) -> Tenant:
    """The tenant, whose pools the checks have found."""
    lowest = context.environment.priorities[-1].name if context.environment.priorities else None
    grants = {name: grant_slices(context.pools[name], grant) for name, grant in tenant.pools.items()}
    up_to = {}  # only of pools of which the tenant may borrow
    for name, grant in tenant.pools.items():
        most = up_to_slices(context.pools[name], grant)
        if any(count > grants[name].get(resource, 0) for resource, count in most.items()):
            up_to[name] = most
    extra = share_of(tenant.extra) if tenant.extra else NOTHING
    return Tenant(
        name=tenant.name,
        id=tenant.id,
        namespace=tenant.namespace,
        projects=tuple(
            Project(name=project) if isinstance(project, str) else project for project in tenant.projects
        ),
        weight=tenant.weight,
        max_priority=tenant.max_priority or lowest,
        grants=grants,
        up_to=up_to,
        running=tenant.limits.running,
        queued=tenant.limits.queued,
        gpus_per_job=tenant.limits.gpus_per_job,
        budget=tenant.budget,
        ingress_from=tuple(tenant.access.ingress_from),
        oidc_groups=tuple(tenant.access.oidc_groups),
        service_accounts=tuple(tenant.access.service_accounts),
        exposure=tuple(tenant.access.exposure),
        job_secrets=None if tenant.jobs.secrets is None else tuple(tenant.jobs.secrets),
        job_claims=None if tenant.jobs.claims is None else tuple(tenant.jobs.claims),
        checkpoints=tenant.jobs.checkpoints,
        extra=extra,
        requests=_requests(context, grants, extra),
        requests_up_to=_requests(context, {**grants, **up_to}, extra),
        extended=_extended(context, grants),
        extended_up_to=_extended(context, {**grants, **up_to}),
    )


def _requests(
    context: CheckContext, grants: Mapping[str, Mapping[str, int]], extra: MachineShare
) -> MachineShare | None:
    """What all pods of a tenant may request: its share of the machines that it has slices of, and `extra`."""
    shares = [
        (context.pools[name].share(resource), count)
        for name, grant in grants.items()
        for resource, count in grant.items()
    ]
    known = [share * count for share, count in shares if share is not None]
    # A tenant that only borrows has no GPUs that CPU and memory of its own pods could follow from.
    bounded = any(count for _, count in shares) or extra != NOTHING
    return sum(known, extra) if bounded and len(known) == len(shares) else None


def _extended(context: CheckContext, grants: Mapping[str, Mapping[str, int]]) -> Mapping[str, int]:
    """Its share of what the machines have beside GPUs, CPU and memory."""
    total: dict[str, Fraction] = {}
    for name, grant in grants.items():
        for resource, count in grant.items():
            for extended, share in context.pools[name].extended_share(resource).items():
                total[extended] = total.get(extended, Fraction(0)) + count * share
    return {name: int(amount) for name, amount in sorted(total.items())}


def _policies(context: CheckContext) -> Policies:
    policies = context.environment.policies
    limits = policies.limits
    return Policies(
        default=policies.default,
        scope=policies.scope,
        overrides=policies.overrides,
        waivers=tuple(policies.waivers),
        limits=PolicyLimits(
            registries=tuple(limits.registries),
            device_classes=tuple(limits.device_classes),
            job_ttl_seconds=duration_seconds(limits.job_ttl),
            job_deadline_seconds=duration_seconds(limits.job_deadline),
            job_retries=limits.job_retries,
            budget_after_seconds=duration_seconds(limits.budget_after),
            pod_grace_seconds=duration_seconds(limits.pod_grace),
        ),
        files=context.policy_files,
    )


def _delivery(environment: spec.Environment) -> Delivery:
    delivery = environment.delivery
    if delivery.engine == "pulumi":
        return PULUMI
    engine = ENGINE_FACTS[delivery.engine]
    return Delivery(
        by=engine,
        repo=delivery.repo or "",
        path=PurePosixPath(delivery.path or ".").as_posix(),
        revision=delivery.revision,
        on_removal=delivery.on_removal or engine.on_removal,
        given=delivery,
    )
