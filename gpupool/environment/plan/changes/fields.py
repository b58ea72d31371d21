"""Two values of one kind to the list of settings that differ, under the names of the environment file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.changes.model import SettingChange
from gpupool.environment.plan.model import POOL_LABEL, Machine, Pool
from gpupool.environment.plan.tenants import NOTHING, MachineShare, Tenant, cpu_quantity, memory_quantity
from gpupool.environment.spec.machines import SecurityGroupTerm, SubnetTerm
from gpupool.environment.spec.tenants import Budget, Project

DERIVED_LABELS = (POOL_LABEL, "nvidia.com/device-plugin.config", "nvidia.com/mig.config")
"""Labels of a pool's nodes that are not in the file: they follow from its name and its sharing."""


def differing(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> tuple[SettingChange, ...]:
    """What differs between two sets of settings, in the order of `before`, new ones last."""
    names = [*before, *(name for name in after if name not in before)]
    return tuple(
        SettingChange(name, before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    )


def pool_settings(pool: Pool) -> dict[str, str | None]:
    """A pool's settings by name, in words; None and absent mean that there is none."""
    settings: dict[str, str | None] = {
        "name": pool.name,
        "description": pool.description or None,
        "gpu": pool.gpu.key,
        "sharing": wording.sharing(pool),
        "nodes.instanceTypes": _listed(sorted(m.instance_type for m in pool.machines if m.instance_type)),
        "nodes.names": _listed(pool.node_names),
        "nodes.selector": _listed([f"{key}={value}" for key, value in sorted(pool.node_selector.items())]),
        "nodes.gpus": None if pool.capacities else str(pool.gpus_per_node),
        "nodes.size": None if pool.capacities else _share(pool.machines[0].size),
        "nodes.disk": None if pool.disk_mib is None else memory_quantity(pool.disk_mib),
        "nodes.max": str(pool.nodes_max) if pool.one_size else None,
        "nodes.maxGpus": None if pool.one_size else str(pool.gpus_max),
        "nodes.warm": str(pool.warm),
        "nodes.spotShare": f"{pool.spot_share:g}",
        "nodes.capacity": "spot, on-demand" if pool.spot_first else None,
        "nodes.reserved": _listed([wording.reserved(row) for row in pool.reserved]),
        "nodes.zones": _listed(sorted(pool.zones)),
        "nodes.image": _image(pool),
        **_machine(pool),
        "nodes.consolidateAfter": pool.consolidate_after,
        "nodes.reservedConsolidateAfter": pool.reserved_consolidate_after if pool.reserved else None,
        "nodes.expireAfter": pool.expire_after,
        "nodes.terminationGracePeriod": pool.termination_grace_period,
        "nodes.usdPerHour": _prices(pool.machines) if pool.capacities else None,
        "taints": _listed(sorted(wording.taint(taint) for taint in pool.taints)),
        "fallbackTo": _listed(pool.fallback_to),
        "overcommit": "true" if pool.overcommit else None,
        "jobsOnly": "true" if pool.jobs_only else None,
        "maintenance.maxUnavailable": str(pool.max_unavailable),
        "maintenance.window": wording.window(pool.window),
    }
    labels = {key: value for key, value in sorted(pool.labels.items()) if key not in DERIVED_LABELS}
    return settings | {f"labels.{key}": value or '""' for key, value in labels.items()}


def _share(share: MachineShare | None) -> str | None:
    return (
        None
        if share is None
        else f"{cpu_quantity(share.cpu_millis)} CPU, {memory_quantity(share.memory_mib)}"
    )


def _machine(pool: Pool) -> dict[str, str | None]:
    machine = pool.machine
    return {
        "nodes.rootVolume": _words(machine.root_volume.mapping()["ebs"]) if pool.capacities else None,
        "nodes.subnets": _terms(machine.subnets),
        "nodes.securityGroups": _terms(machine.security_groups),
        "nodes.kubelet": _words(machine.kubelet.body()) if machine.kubelet else None,
        "nodes.startupTaints": _listed(sorted(wording.taint(taint) for taint in pool.startup_taints)),
        "nodes.placementGroup": _words(machine.placement_group.body()) if machine.placement_group else None,
        "nodes.tags": _words(machine.tags),
        "nodes.efa": f"{machine.efa} cards" if machine.efa else None,
        "nodes.extendedResources": _words(pool.machines[0].extended),
    }


def _words(fields: Mapping[str, object]) -> str | None:
    """`volumeSize 200Gi, volumeType gp3`: fields that are shown together."""

    def value(field: object) -> str:
        return f"({_words(field)})" if isinstance(field, Mapping) else str(field)

    return ", ".join(f"{key} {value(field)}" for key, field in sorted(fields.items())) or None


def _terms(terms: Sequence[SubnetTerm | SecurityGroupTerm]) -> str | None:
    return "; ".join(filter(None, (_words(term.body()) for term in terms))) or None


def _image(pool: Pool) -> str | None:
    if pool.image is None:
        return None
    terms = "; ".join(
        ", ".join(f"{key}={value}" for key, value in sorted(term.items())) for term in pool.image.terms()
    )
    return f"{pool.image.family} ({terms})" + (" with userData" if pool.image.user_data else "")


def _prices(machines: Sequence[Machine]) -> str:
    def price(machine: Machine) -> str:
        kinds = [(machine.usd_per_hour, ""), (machine.spot_usd_per_hour, " spot")]
        if machine.reserved_usd_per_hour != machine.usd_per_hour:
            kinds.append((machine.reserved_usd_per_hour, " reserved"))
        known = [f"{amount:g}{kind}" for amount, kind in kinds if amount is not None]
        return f"{machine.instance_type} " + (" or ".join(known) or "unknown")

    return ", ".join(sorted(price(machine) for machine in machines))


def tenant_settings(tenant: Tenant) -> dict[str, str | None]:
    """A tenant's settings but for its quota and the sum of its budget."""

    def number(value: int | None) -> str | None:
        return None if value is None else str(value)

    settings: dict[str, str | None] = {
        "name": tenant.name,
        "namespace": tenant.namespace,
        "id": tenant.id,
        "projects": _listed([project.name for project in tenant.projects]),
        "weight": f"{tenant.weight:g}",
        "maxPriority": tenant.max_priority,
        "limits.running": number(tenant.running),
        "limits.queued": number(tenant.queued),
        "limits.gpusPerJob": number(tenant.gpus_per_job),
        "budget.alertAt": _alerts(tenant.budget),
        "budget.overrunBy": _overrun(tenant.budget),
        "access.ingressFrom": _listed(tenant.ingress_from),
        "access.oidcGroups": _listed(tenant.oidc_groups),
        "access.serviceAccounts": _listed(tenant.service_accounts),
        "access.exposure": _listed(tenant.exposure),
        "jobs.secrets": _chosen(tenant.job_secrets),
        "jobs.claims": _chosen(tenant.job_claims),
        "jobs.checkpoints": tenant.checkpoints,
        "extra": _share(tenant.extra) if tenant.extra != NOTHING else None,
    }
    for project in tenant.projects:
        settings |= _project_settings(project)
    settings |= {f"pools.{pool}.upTo": wording.counts(most) for pool, most in tenant.up_to.items()}
    return settings | {f"pools.{pool}": wording.counts(grant) for pool, grant in tenant.grants.items()}


def _project_settings(project: Project) -> dict[str, str | None]:
    place = f"projects.{project.name}"
    return {
        f"{place}.id": project.id,
        f"{place}.budget": wording.budget(project.budget),
        f"{place}.budget.alertAt": _alerts(project.budget),
        f"{place}.budget.overrunBy": _overrun(project.budget),
    }


def _alerts(budget: Budget | None) -> str | None:
    return _listed([f"{share:g}" for share in budget.alert_at]) if budget else None


def _overrun(budget: Budget | None) -> str | None:
    return f"{budget.overrun_by:g}" if budget and budget.overrun_by else None


def _chosen(items: Sequence[str] | None) -> str | None:
    """An empty list is not the same as none."""
    return None if items is None else _listed(items) or "[]"


def _listed(items: Sequence[str]) -> str | None:
    return ", ".join(items) or None
