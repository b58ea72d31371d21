"""The custom resource definitions of the control plane: from pinned modules through the cache to the server.

Which ones is data (crds.yaml). Once they lie in the cache, starting a control plane needs no Go.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import yaml

from gpupool.live.cluster.kube_api import ApiError, KubeApi
from gpupool.programs import gobuild
from gpupool.programs.binaries import TOOLS, Report, cache_folder, pinned_version
from gpupool.programs.failures import LocalError

LISTING = Path(__file__).with_name("crds.yaml")
"""What the control plane serves."""
_ESTABLISH_SECONDS = 60.0
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""Aggregated discovery (Kubernetes 1.30 and later): all groups with their resources in one answer."""
MANAGER = "gpupool-local"
"""Field manager of what every control plane has."""


def definitions(report: Report = lambda _: None, listing: Path = LISTING) -> list[dict[str, Any]]:
    """Every definition of a listing, parsed.

    Files of its own lie beside the listing. Raises LocalError when a module can't be had.
    """
    wanted = yaml.safe_load(listing.read_text(encoding="utf-8"))
    found = []
    for entry in wanted["modules"]:
        folder = _module_files(entry["tool"], entry["module"], tuple(entry["files"]), report)
        found += [_parse(folder / Path(name).name) for name in entry["files"]]
    return found + [_parse(listing.parent / name) for name in wanted["own"]]


def _parse(path: Path) -> dict[str, Any]:
    definition: dict[str, Any] = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    return definition


def _module_files(tool: str, module: str, names: tuple[str, ...], report: Report) -> Path:
    """The cache folder that holds `names` of the pinned version of `module`, filled first if need be."""
    version = pinned_version(tool, module)
    digest = hashlib.sha256("\n".join((module, version, *names)).encode()).hexdigest()[:12]
    target = cache_folder() / "crds" / f"{module.rpartition('/')[2]}-{version}-{digest}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with gobuild.locked(target.parent / f".{target.name}.lock", f"the CRDs of {module}", report):
        if not target.is_dir():
            report(f"fetching the CRDs of {module} {version}")
            source = module_folder(tool, module)
            fresh = target.with_name(f".{target.name}.new")
            fresh.mkdir(exist_ok=True)
            for name in names:
                (fresh / Path(name).name).write_bytes((source / name).read_bytes())
            fresh.replace(target)
    return target


def module_folder(tool: str, module: str) -> Path:
    """The folder of a pinned module in Go's module cache, downloaded and checked against go.sum."""
    go = gobuild.require_go(TOOLS / tool / "go.mod")
    environment = {**os.environ, "GOFLAGS": "", "GOWORK": "off"}
    for command in (["mod", "download", module], ["list", "-m", "-f", "{{.Dir}}", module]):
        done = subprocess.run(
            [go, *command], cwd=TOOLS / tool, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            problem = done.stderr.strip() or "no reason given"
            raise LocalError(f"`go {' '.join(command)}` in {TOOLS / tool} failed: {problem}")
    return Path(done.stdout.strip())


def serve(api: KubeApi, wanted: list[dict[str, Any]]) -> None:
    """Apply the definitions and wait until the server answers for each; LocalError if it never does."""
    for definition in wanted:
        api.apply(definition, MANAGER, force=True)
    deadline = time.monotonic() + _ESTABLISH_SECONDS
    for definition in wanted:
        group, names = definition["spec"]["group"], definition["spec"]["names"]
        version = next(row["name"] for row in definition["spec"]["versions"] if row["served"])
        while not (
            _answers(api, f"/apis/{group}/{version}/{names['plural']}?limit=1")
            and _discovered(api, group, version, names["plural"])
        ):
            if time.monotonic() > deadline:
                raise LocalError(f"the API server does not serve {names['kind']} of {group}; see its log")
            time.sleep(0.05)


def _answers(api: KubeApi, path: str) -> bool:
    try:
        api.request("GET", path)
    except ApiError as error:
        if error.status not in (404, 429, 503):
            raise
        return False
    return True


def _discovered(api: KubeApi, group: str, version: str, plural: str) -> bool:
    """Whether the list from which kubectl reads what kinds there are has the resource: it follows later."""
    groups = api.request("GET", "/apis", accept=DISCOVERY)[1]["items"]
    return any(
        found["metadata"]["name"] == group
        and listed["version"] == version
        and any(resource["resource"] == plural for resource in listed["resources"])
        for found in groups
        for listed in found["versions"]
    )
