"""What an even part of a time-sliced GPU's memory is enough for. Nothing enforces it: a caution alone."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.policy.rules.bundle import ObjectSet
from gpupool.policy.rules.rule import RuleViolation

LEAST_MIB = 512
"""A process that uses PyTorch takes more before it does any work: 781 MiB in pytorch/pytorch#34323. With MPS
clients share that, and the hardware divides MIG instances."""


def sufficient(bundle: ObjectSet) -> Iterator[RuleViolation]:
    for pool in bundle.plan.pools if bundle.plan else ():
        part = pool.gpu_memory_mib
        if part is not None and part < LEAST_MIB:
            slices = sum(pool.sharing.slices_per_gpu(pool.gpu).values())
            message = (
                f"{slices} slices share the {pool.gpu.memory_mib / 1024:g} GiB of one {pool.gpu.title}: "
                f"{part} MiB each when all are in use"
            )
            yield RuleViolation(message, path=f"pool {pool.name}", values={"mib": part, "least": LEAST_MIB})
