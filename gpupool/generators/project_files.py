"""What of a project a process in the cluster needs beside its environment file: files of its own by name.

What ships with gpupool is in the image.
"""

from __future__ import annotations

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.policy_files import SHIPPED
from gpupool.environment.spec.yaml_source import MAX_BYTES
from vapcheck.reading import read_file


def policy_texts(plan: Plan) -> dict[str, str]:
    """The project's own policy files by name."""
    own = [path for path in plan.policies.files if path.parent != SHIPPED]
    return {path.name: read_file(path, MAX_BYTES).decode() for path in own}


def gpu_texts(plan: Plan) -> dict[str, str]:
    """The project's own GPU models that pools have, by name of their file."""
    own = {pool.gpu.key: pool.gpu.own_file for pool in plan.pools}
    return {f"{key}.yaml": text for key, text in sorted(own.items()) if text is not None}
