"""An applied environment in which drift is injected, found and fixed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gpupool.environment.plan.model import POOL_LABEL
from gpupool.findings import Category
from gpupool.live.drift import Drift
from gpupool.live.drift.check import DriftCheck, assert_environment
from gpupool.programs import binaries
from tests.cluster.pools.command_line import CommandLine
from tests.environment_files import environment_data

Object = dict[str, Any]
SOMEBODY = "kubectl-edit"
"""The field manager of `kubectl edit`."""

ENVIRONMENT: Object = environment_data(
    "local",
    name="drifting",
    pools=[
        {
            "name": "notebooks",
            "gpu": "t4",
            "sharing": {"mode": "time-slicing", "replicas": 4},
            "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 1, "warm": 1, "consolidateAfter": "1h"},
            "labels": {"workload-type": "notebooks"},
        },
        {
            "name": "models",
            "gpu": "a100-80gb",
            "sharing": {"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 2}},
            "nodes": {"instanceTypes": ["p4de.24xlarge"], "max": 1, "warm": 1, "consolidateAfter": "1h"},
        },
        {
            "name": "batch",
            "gpu": "a10g",
            "nodes": {"instanceTypes": ["g5.xlarge"], "max": 2, "consolidateAfter": "1s"},
        },
    ],
    priorities=[{"name": "training", "value": 500, "level": "high"}],
    tenants=[
        {
            "name": "vision",
            "namespace": "team-vision",
            "pools": {"notebooks": {"slices": 3}, "batch": {"gpus": 1}},
        },
        {"name": "audio", "namespace": "team-audio", "pools": {"models": {"profiles": {"3g.40gb": 2}}}},
    ],
)


@dataclass
class World:
    """The environment, its cluster, and the command line that fixes it."""

    commands: CommandLine
    kube: Any
    touched: bool = False
    """Whether `up` has applied another file meanwhile."""

    @property
    def api(self) -> Any:
        return self.kube.api

    def examine(self, later: float = 0.0) -> DriftCheck:
        """Hold the cluster against the file, as if so many seconds had passed."""
        plan = self.commands.plan
        now = datetime.now(UTC) + timedelta(seconds=later)
        return assert_environment(plan, self.api, now, str(self.commands.file))

    def drifts(self, later: float = 0.0) -> tuple[Drift, ...]:
        return self.examine(later).of(Category.drift)

    def found(self, what: str, test: Callable[[Drift], bool], later: float = 0.0) -> Drift:
        """Wait until a difference is found, and return it."""
        seen: list[Drift] = []

        def there() -> bool:
            drifts = self.drifts(later)
            seen[:] = [drift for drift in drifts if test(drift)]
            assert seen, f"found only: {[(d.layer, d.code, d.object, d.what) for d in drifts]}"
            return True

        self.kube.wait(what, there, timeout=60)
        return seen[0]

    def clean(self, later: float = 0.0) -> None:
        """Wait until nothing is left, not even what settles."""

        def nothing() -> bool:
            outcome = self.examine(later)
            reported = [(d.category.value, d.code, d.object, d.what) for d in outcome.drifts]
            assert outcome.settled, f"left: {reported}"
            return True

        self.kube.wait("the cluster matches the file", nothing, timeout=120)

    def run(self, command: str) -> None:
        """Run a repair command as printed; `--yes` stands for the answer of who is asked."""
        kubectl = binaries.find("kubectl")
        assert kubectl is not None
        path = [str(Path(sys.executable).parent), str(kubectl.parent), os.environ["PATH"]]
        done = subprocess.run(
            ["/bin/sh", "-ec", re.sub(r"\bgpupool up\b", "gpupool up --yes", command)],
            env={
                **os.environ,
                "PATH": os.pathsep.join(path),
                "KUBECONFIG": str(self.commands.plane.kubeconfig),
                "GPUPOOL_LOCAL_DIR": str(self.commands.plane.layout.data),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"

    def edit(
        self, version: str, kind: str, name: str, body: Any, namespace: str | None = None, by: str = SOMEBODY
    ) -> None:
        """Change an object by hand, as a field manager of one's own."""
        path = self.api.require(version, kind).path(namespace, name)
        listed = isinstance(body, list)
        content = "application/json-patch+json" if listed else "application/merge-patch+json"
        self.api.request("PATCH", path, {"fieldManager": by}, body, content)

    def node(self, pool: str) -> str:
        """The name of the pool's one node, once those are gone that Karpenter has started too many."""

        def only() -> str:
            found = self.kube.nodes(f"karpenter.sh/nodepool={pool}")
            assert len(found) == 1, [node["metadata"]["name"] for node in found]
            return str(found[0]["metadata"]["name"])

        return str(self.kube.wait(f"{pool} has one node", only))

    def label(self, node: str, key: str, value: str | None) -> None:
        self.edit("v1", "Node", node, {"metadata": {"labels": {key: value}}})

    def annotate(self, node: str, key: str, value: str | None) -> None:
        self.edit("v1", "Node", node, {"metadata": {"annotations": {key: value}}})

    def wipe(self) -> None:
        """Take everything away at once; `destroy` would wait for nodes to be drained."""
        self.kube.wipe()
        stacks = Path(__file__).parents[3] / ".gpupool" / "stacks"
        (stacks / f"Pulumi.{ENVIRONMENT['metadata']['name']}.yaml").unlink(missing_ok=True)

    def offers(self, node: str, resource: str, count: int) -> None:
        """Wait until the node offers so many."""

        def there() -> bool:
            have = self.kube.node(node)["status"]["allocatable"].get(resource, "0")
            assert have == str(count), f"{have} {resource}"
            return True

        self.kube.wait(f"{count} {resource}", there, timeout=60)

    def restart_plugin(self, node: str, pool: str) -> None:
        """Have the device plugin of the node started again."""
        self.label(node, "nvidia.com/device-plugin.config", "gpupool.default")
        self.kube.wait(
            "the plugin has the default configuration",
            lambda: self.kube.node(node)["metadata"]["labels"].get("nvidia.com/gpu.replicas") == "1",
            timeout=60,
        )
        self.label(node, "nvidia.com/device-plugin.config", pool)

    def config_map(self, prefix: str) -> Object:
        """The one ConfigMap of the operator's namespace whose name begins so."""
        rows = self.api.list("v1", "ConfigMap", "gpu-operator")
        (found,) = [row for row in rows if row["metadata"]["name"].startswith(prefix)]
        return dict(found)


__all__ = ["ENVIRONMENT", "POOL_LABEL", "World"]
