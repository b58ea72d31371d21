"""Which objects must not be deleted automatically, because running work would be lost with them.

An engine that applies files deletes objects that are no longer in them. This module lists the exceptions for
every engine.
"""

from __future__ import annotations

from gpupool.environment.plan.pods import LAUNCHER_ACCOUNT
from gpupool.environment.plan.tenant_quotas import ALL
from gpupool.generators.kinds import BOUNDS, kind_of
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import TENANT_LABEL


def holds_work(manifest: Manifest) -> bool:
    """Whether jobs or people's data go with the object, or what bounds them: a namespace that stays must not
    lose its quota, otherwise the namespace could use every GPU, nor the queue's rights: they end what runs
    there, and take the queue's finalizer off it."""
    kind = kind_of(manifest.kind)
    bounds = kind.wave is BOUNDS and manifest.name == ALL and TENANT_LABEL in manifest.labels
    launcher = manifest.kind == "RoleBinding" and manifest.name == LAUNCHER_ACCOUNT
    return manifest.protect or kind.holds_jobs or bounds or launcher
