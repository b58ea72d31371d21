"""What a check is given, and what it yields. No rule lives here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from gpupool.environment.catalog.load import Catalog
from gpupool.environment.catalog.models import CatalogError, GpuModel
from gpupool.environment.plan.capacity import sharing_of
from gpupool.environment.plan.model import Pool
from gpupool.environment.plan.platforms import PLATFORMS, has_existing_nodes
from gpupool.environment.sharing import Sharing
from gpupool.environment.spec import environment as spec
from gpupool.environment.spec.environment import Environment
from gpupool.environment.spec.gaps import Gaps
from gpupool.environment.spec.yaml_source import Loc

Siblings = Mapping[str, Path | bytes]
"""Environments of one project in one state by name, each as its file or as what is in that."""


@dataclass(frozen=True, slots=True)
class PlanProblem:
    """One refusal: where, what is wrong with which value, and what would be right."""

    loc: Loc
    message: str
    remediation: str
    judged_by: tuple[Loc, ...] = ()
    """What it rests on, where that is less than all at `loc`: it holds whatever else is broken there."""
    ready: str = ""
    """A file that would make it right once it is filled in."""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The environment and everything a rule may compare it with."""

    environment: Environment
    catalog: Catalog
    pools: Mapping[str, Pool]
    """Pools that could be resolved, by name."""
    named: Mapping[str, frozenset[str]]
    """All names that the file gives in pools, tenants and priorities, broken ones included, so that a
    reference to a pool with an error of its own is not reported as unknown."""
    gaps: Gaps
    """What of the file is not in the environment, or has a neutral value there."""
    file_stem: str | None
    """Name of the file without .yaml; None where the text came from elsewhere."""
    policy_files: tuple[Path, ...]
    """Files of the policies that are in force."""
    new_gpu: Callable[[str], str]
    """A file for a GPU of that key, to be filled in."""
    siblings: Siblings | None
    """The environments of the project, including this one; None for a single file or text."""

    @property
    def platform(self) -> str | None:
        """The cluster's platform; None where the file's is broken."""
        unknown = self.gaps.covers(("cluster", "platform"))
        return None if unknown else self.environment.cluster.platform

    def buys(self, pool: spec.Pool) -> bool:
        """Whether Karpenter starts the pool's nodes; False where the platform's name is broken."""
        return self.platform is not None and not has_existing_nodes(self.platform, pool.nodes)

    def sharing(self, pool: spec.Pool) -> Sharing:
        """How the pool's GPUs are shared, by the platform's own rules."""
        return sharing_of(pool.sharing, self.platform is None or PLATFORMS[self.platform].operator)

    def defined(self, section: str) -> list[str]:
        """The names that the file gives in `section`, in its order."""
        items = getattr(self.environment, section)
        return [item.name for item in items if item.name in self.named[section]]

    def gpu(self, key: str) -> GpuModel | None:
        """The GPU model of that key, None where the catalog has none."""
        try:
            return self.catalog[key]
        except CatalogError:
            return None

    def machine_sizes(self, pool: spec.Pool) -> list[int]:
        """GPUs of the machines that the file names and the catalog knows, ascending, each number once."""
        gpu = self.gpu(pool.gpu)
        sizes = set[int]()
        for name in pool.nodes.instance_types:
            try:
                sizes |= {gpu.instance_type(name).gpus} if gpu else set()
            except CatalogError:
                continue  # a finding of its own
        return sorted(sizes)


def closest(name: str, known: Iterable[str]) -> str:
    """A remediation that names what `name` may have meant, else all that is known."""
    names = list(known)
    close = get_close_matches(name, names, 1, 0.6)
    if close:
        return f'did you mean "{close[0]}"? defined: {", ".join(names)}'
    return f"defined: {', '.join(names)}" if names else "none is defined"
