"""Configurations without any machines: a pool for each, on nodes that exist already and are yet to be named.

A device-plugin configuration says how GPUs are shared and not which; a MIG layout sometimes fits only one
model. Where the GPU is not known, the pool is left out, and the list says how to name it.
"""

from __future__ import annotations

import re

from gpupool.adopt.convert import bounds, mig_parted
from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.draft import Choices, Draft, DraftPool
from gpupool.adopt.convert.mig_parted import PER_GPU
from gpupool.adopt.convert.node_labels import pool_name
from gpupool.adopt.convert.sharing import Sharings, leave_out, problem_of
from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.catalog.project import catalog_here

SELECTOR = "gpu-pool"
"""Label by which the nodes of such a pool are found. The configuration's own label can't be it: gpupool sets
that one to the pool's name."""


def make(sharings: Sharings, choices: Choices, draft: Draft) -> None:
    """Add a pool to `draft` for each configuration that shares a GPU."""
    for config in sharings.plugins:
        if config.sharing["mode"] == "exclusive":
            continue
        sharings.used.add(id(config))
        gpu = _chosen(config.name, choices) or _by_name(config.name)
        if gpu is None:
            why = "a device-plugin configuration does not name its GPU"
            _missing(config.part, config.name, why, draft)
        elif problem := problem_of(config.sharing, gpu):
            _wrong(config.part, config.name, problem, draft)
        else:
            origin = f"{config.described} ({config.part.document.file})"
            pool = DraftPool(config.name, gpu.key, config.sharing, origin=[origin])
            _add(draft, pool, config.part, choices)
    for layout in sharings.layouts:
        if layout.name not in ("all-disabled", "all-enabled") and not layout.disabled():
            sharings.used.add(id(layout))
            _partitioned(layout, choices, draft)


def _partitioned(config: mig_parted.MigConfig, choices: Choices, draft: Draft) -> None:
    chosen = _chosen(config.name, choices)
    models = [chosen] if chosen else config.models()
    if not chosen and _by_name(config.name) in models:
        models = [model for model in models if model is _by_name(config.name)]
    if len(models) > 1:
        fit = ", ".join(model.key for model in models)
        _missing(config.part, config.name, f"the layout fits several GPUs: {fit}", draft)
        return
    if not models:
        _nowhere(config, draft)
        return
    sharing, problem = mig_parted.layout(config, models[0], None)
    if problem:
        draft.left_out.append(f"{config.name}: {problem}")
    elif sharing["mode"] == "mig":
        pool = DraftPool(config.name, models[0].key, sharing, origin=[config.described])
        _add(draft, pool, config.part, choices)


def _nowhere(config: mig_parted.MigConfig, draft: Draft) -> None:
    """Leave out a layout that no GPU has. If several GPUs have its profiles, the list asks which one was
    meant, because the correction depends on it."""
    reasons: dict[str, str] = {}
    for gpu in catalog_here().models.values():
        if mig_parted.has_profiles(config, gpu):
            problem = mig_parted.layout(config, gpu, None, mark=False)[1]
            if not problem:
                continue  # entries of other GPUs are wrong
            reasons[gpu.key] = problem.replace(f"the {gpu.title}", "one GPU")
    if PER_GPU in reasons.values():
        _wrong(config.part, config.name, PER_GPU, draft)
        return
    if len(set(reasons.values())) > 1:
        why = f"the layout does not fit any GPU with its profiles: {', '.join(reasons)}"
        _missing(config.part, config.name, why, draft)
        return
    why = next(iter(reasons.values()), "no GPU in the catalog has all of its profiles")
    if len(reasons) == 1:
        why = f"on the {catalog_here()[next(iter(reasons))].title}: {why}"
    _wrong(config.part, config.name, why, draft)


def _chosen(name: str, choices: Choices) -> GpuModel | None:
    key = choices.gpus.get(name, choices.gpus.get(""))
    return catalog_here()[key] if key else None


def _by_name(name: str) -> GpuModel | None:
    """The GPU that a configuration is named after, as `tesla-t4`; None where there is none."""
    for model in catalog_here().models.values():
        known = {model.key, *(label.lower() for label in model.product_labels)}
        if re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") in known:
            return model
    return None


def _missing(part: Part, name: str, why: str, draft: Draft) -> None:
    draft.left_out.append(f"{name}: {why}")
    part.left(
        f"{why}; its pool is left out",
        f"convert again with --gpu {name}=KEY (see gpupool catalog)",
        "todo",
    )


def _wrong(part: Part, name: str, why: str, draft: Draft) -> None:
    draft.left_out.append(f"{name}: {why}")
    leave_out(part, why)


def _add(draft: Draft, pool: DraftPool, part: Part, choices: Choices) -> None:
    """The pool, on nodes that the user is to label; on EKS on every machine with the GPU."""
    pool.name = pool_name(pool.name)
    draft.add(pool)
    if draft.platform == "static":
        pool.selector, pool.max, pool.taints = {SELECTOR: pool.name}, choices.max, []
        remediation = f"kubectl label node NODE {SELECTOR}={pool.name}, then correct nodes.max and nodes.gpus"
        part.note(
            "todo",
            f"its nodes are unknown: pool {pool.name} selects those with the label {SELECTOR}",
            remediation,
        )
    else:
        types = catalog_here()[pool.gpu].instance_types
        pool.instance_types = [row.name for row in types if row.karpenter]
        bounds.bound(pool, choices.max * bounds.sizes_of(pool)[-1])
        why = (
            f"no input names machines: pool {pool.name} may start all types in the catalog, at most "
            f"{choices.max} of the largest"
        )
        part.note("assumed", why, "correct nodes.instanceTypes and the limit")
