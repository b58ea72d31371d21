"""What `convert` writes, rendered, is taken by an API server object by object, CRDs' rules included."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.live.cluster.kube_api import ApiError
from tests.cluster.operator_policy import hand_made_policy

WRITTEN = sorted((Path(__file__).parents[2] / "golden" / "convert").glob("*/environment.yaml"))


def bodies(environment: Path, folder: Path) -> list[dict[str, Any]]:
    """Every whole object that a written environment generates."""
    file = folder / "converted.yaml"
    shutil.copy(environment, file)
    return [dict(manifest.body) for manifest in generate(read_plan(str(file))) if not manifest.patch]


def refusal(cluster: Any, body: dict[str, Any]) -> str | None:
    """What the server says against creating the object, which it does not store. Unknown fields are refused
    and the definitions' own rules run."""
    try:
        cluster.api.apply(body, "converted", force=True, dry_run=True)
    except ApiError as error:
        return str(error)
    return None


def test_the_server_takes_what_every_converted_file_generates(monitored: Any, tmp_path: Path) -> None:
    monitored.apply(hand_made_policy())
    every = {path.parent.name: bodies(path, tmp_path) for path in WRITTEN}
    for space in {body["metadata"].get("namespace") for one in every.values() for body in one} - {None}:
        monitored.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    found = [
        f"{name}: {body['kind']} {body['metadata']['name']}: {said}"
        for name, objects in every.items()
        for body in objects
        if (said := refusal(monitored, body))
    ]
    assert not found, "\n".join(found)
    pools = [body for one in every.values() for body in one if body["kind"] == "NodePool"]
    pools[0]["spec"]["template"]["spec"]["requirements"][0]["operator"] = "Maybe"
    assert "Maybe" in str(refusal(monitored, pools[0]))  # so that all this can fail
