"""Images that Helm values of the GPU Operator name one by one, as a copy of all its values does.

The release that gpupool installs brings its own images, and a mix with parts of another release is
untested. So versions and names of images are listed and not carried over; repositories are carried over where
they are mirrors, that is, not NVIDIA's. `driver.version` is a separate setting: it is kept, and the list says
so. Chart gpu-operator v26.7.0; of node-feature-discovery 0.19.0 its `image`.
"""

from __future__ import annotations

from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.draft import Draft, about
from gpupool.environment.plan.operator_releases import OperatorRelease, load_operator_releases
from gpupool.environment.spec.yaml_source import Loc

_FIELDS = ("version", "image", "repository")
_FEATURES = ("node-feature-discovery", "image")
_THEIRS = ("nvcr.io/nvidia", "ghcr.io/nvidia", "registry.k8s.io/nfd", "gcr.io/k8s-staging-nfd")
"""Repositories that releases of the chart name themselves."""
_NO_PARTS = ("extraObjects",)


def drop(part: Part, draft: Draft) -> None:
    """List the images that the values at `part` pin, and say which release was chosen where none is named."""
    pins = [(path, leaf) for path, leaf in part.unmarked() if _is_pin(path, leaf)]
    release = chosen(draft)
    for path, leaf in pins:
        if not leaf.value or path[-1] == "repository":
            leaf.derived()  # as the chart has it
        else:
            remediation = f"add it to gpuOperator.values to use it with {release}"
            leaf.left(f"GPU Operator {release} has its own image of {path[0]}", remediation)
    if "version" in draft.operator or draft.operator.get("install") is False:
        return
    paths = [path for path, leaf in pins if leaf.value]
    older = _release(part)
    like = f"; these are the images of {older.version}" if older and older.version != release else ""
    why = (
        f"no input names the operator's release: {release}, which gpupool is tested with, is installed{like}"
    )
    remediation = f"to stay with {older.version}, write it to gpuOperator.version" if older and like else ""
    part.account.note(about(draft, "gpuOperator.version", why, remediation))
    kept = part.at("driver", "version")
    if paths and kept and draft.operator.get("driver", {}).get("version"):
        brought = driver(release) or "its own"
        why = f"it is kept, unlike the images of other components; {release} would use {brought}"
        kept.note(
            "assumed", why, "remove gpuOperator.driver.version if it was only the old release's default"
        )


def _is_pin(path: Loc, leaf: Part) -> bool:
    if path[0] in _NO_PARTS or isinstance(leaf.value, (dict, list)):
        return False
    own = path[:2] == _FEATURES and path[2:] in (("tag",), ("repository",))
    if not own and (len(path) < 2 or path[-1] not in _FIELDS or path[0] == _FEATURES[0]):
        return False
    repository = f"{leaf.value or _THEIRS[0]}/"
    return path[-1] != "repository" or any(repository.startswith(f"{one}/") for one in _THEIRS)


def _release(part: Part) -> OperatorRelease | None:
    """The release whose device plugin and MIG manager the values pin, where it is known."""
    values = [part.at(operand, "version").value for operand in ("devicePlugin", "migManager")]
    for release in load_operator_releases().releases.values():
        if values == [release.device_plugin, release.mig_manager]:
            return release
    return None


def chosen(draft: Draft) -> str:
    """The release that the draft installs: the one it names, or the one that gpupool is tested with."""
    return str(draft.operator.get("version") or load_operator_releases().tested)


def driver(version: str) -> str | None:
    """The driver that a release of the operator brings, where it is known."""
    release = load_operator_releases().releases.get(version)
    return release.driver if release else None
