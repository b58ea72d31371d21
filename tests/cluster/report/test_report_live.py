"""What a report says of nodes is what Karpenter then does, and what it says of a cluster is what is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.model import POOL_LABEL
from gpupool.local import sample_jobs
from gpupool.local.control_plane import ControlPlane
from tests.cluster.pools.command_line import CommandLine, Object
from tests.environment_files import environment_data

ENVIRONMENT = environment_data(
    "local",
    name="local",
    pools=[
        {
            "name": "resliced",
            "gpu": "t4",
            "sharing": {"mode": "time-slicing", "replicas": 4},
            "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 2, "consolidateAfter": "1h"},
        },
        {
            "name": "relabelled",
            "gpu": "t4",
            # At its maximum: the successor comes all the same before the node goes.
            "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 1, "consolidateAfter": "1h"},
        },
        {
            "name": "narrowed",
            "gpu": "a10g",
            "nodes": {"instanceTypes": ["g5.xlarge", "g5.12xlarge"], "maxGpus": 8, "consolidateAfter": "1h"},
        },
        {
            "name": "dropped",
            "gpu": "t4",
            "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 1, "consolidateAfter": "1h"},
        },
    ],
    tenants=[
        {
            "name": "vision",
            "namespace": "team-vision",
            "pools": {
                "resliced": {"slices": 4},
                "relabelled": {"gpus": 1},
                "narrowed": {"gpus": 1},
                "dropped": {"gpus": 1},
            },
        }
    ],
)


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def gpupool(cluster: Any, control_plane: ControlPlane, tmp_path: Path) -> Iterator[CommandLine]:
    """The environment applied, a pod of its tenant on a node of every pool, and the file committed."""
    file = tmp_path / "environments" / "local.yaml"
    file.parent.mkdir()
    commands = CommandLine(file, control_plane)
    commands.write(ENVIRONMENT)
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "x")
    commands.up()
    assert all(state.running for state in sample_jobs.run(commands.plan, cluster.api, lambda _: None))
    yield commands
    commands.run("destroy", "--yes")


def report(gpupool: CommandLine, *options: str) -> Object:
    asked = ("report", str(gpupool.file), "--base", "main", "--format", "json", "--today", "2026-09-01")
    done = subprocess.run(
        [sys.executable, "-m", "gpupool.cli.main", *asked, *options],
        env={**os.environ, "GPUPOOL_LOCAL_DIR": str(gpupool.plane.layout.data)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    (environment,) = json.loads(done.stdout)["environments"]
    found: Object = environment
    return found


def uids(kube: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in kube.nodes(POOL_LABEL):
        found.setdefault(node["metadata"]["labels"][POOL_LABEL], set()).add(node["metadata"]["uid"])
    return found


def test_what_is_reported_is_what_happens(gpupool: CommandLine, cluster: Any) -> None:
    before = uids(cluster)
    assert {pool: len(nodes) for pool, nodes in before.items()} == dict.fromkeys(before, 1)

    def edit(data: Object) -> None:
        sliced, labelled, narrowed, _ = data["pools"]
        sliced["sharing"]["replicas"] = 5
        sliced["nodes"]["consolidateAfter"] = "2h"
        sliced["maintenance"] = {"maxUnavailable": 2}
        labelled["labels"] = {"team": "vision"}
        narrowed["nodes"]["instanceTypes"] = ["g5.xlarge"]
        del data["pools"][3]
        data["tenants"][0]["pools"] = {"resliced": {"slices": 2}, "narrowed": {"gpus": 1}}

    gpupool.change(edit)
    said = report(gpupool, "--live")
    effects = {effect["pool"]: effect for effect in said["effects"] if effect["pool"]}
    assert {pool: (effect["kind"], effect["nodesNow"]) for pool, effect in effects.items()} == {
        "resliced": ("restarted", 1),
        "relabelled": ("replaced", 1),
        "narrowed": ("replaced", 0),  # none of its nodes is a g5.12xlarge
        "dropped": ("deleted", 1),
    }
    names = {node["metadata"]["name"]: node["metadata"]["uid"] for node in cluster.nodes(POOL_LABEL)}
    assert {names[name] for name in effects["relabelled"]["nodes"]} == before["relabelled"]
    for pool in ("relabelled", "dropped"):
        (pod,) = effects[pool]["podsAtRisk"]
        assert (pod["tenant"], pod["namespace"], pod["requests"]) == ("vision", "team-vision", "1 gpu")
    assert effects["resliced"]["podsAtRisk"] == []
    assert {row["pool"]: row["count"] for row in said["live"]["nodes"]} == dict.fromkeys(before, 1)
    # Four pods run on slices of one resource, and the new quota gives three.
    (use,) = said["live"]["overQuota"]
    assert (use["tenant"], use["resource"], use["used"], use["quota"]) == ("vision", "nvidia.com/gpu", 4, 3)
    without = report(gpupool)
    assert without["live"] is None
    assert next(risk for risk in without["risks"] if risk["code"] == "quota")["category"] == "caution"

    gpupool.up()

    def gone() -> bool:
        now = uids(cluster)
        left = {pool for pool in ("relabelled", "dropped") if before[pool] & now.get(pool, set())}
        assert not left, f"nodes of {', '.join(sorted(left))} are still there"
        return True

    cluster.wait("what is reported as deleted is gone", gone)
    cluster.wait("the replaced node has a successor", lambda: len(uids(cluster).get("relabelled", ())) == 1)
    cluster.stays("what is reported to stay stays", lambda: kept(cluster, before, "resliced", "narrowed"))


def kept(kube: Any, before: dict[str, set[str]], *pools: str) -> bool:
    now = uids(kube)
    return all(before[pool] <= now.get(pool, set()) for pool in pools)
