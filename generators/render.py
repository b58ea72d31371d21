"""Manifests as files: one object per file, stable paths and bytes, with an index. `--check` compares.

Writes below the folder it is given and nowhere else. Files of an earlier rendering that are no longer
wanted are removed, but only those that the earlier index lists; the index is written last, so that a
killed run forgets none of them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from generators.emit import yaml_text
from generators.manifest import Bundle, HelmRelease, Manifest

INDEX = "index.json"
_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Differences:
    """How a folder differs from what would be rendered into it: relative paths, sorted."""

    missing: tuple[str, ...]
    changed: tuple[str, ...]
    extra: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.changed or self.extra)


def files(bundle: Bundle) -> dict[str, str]:
    """Relative path -> content of every file of the rendering, the index included."""
    content = {_manifest_path(manifest): yaml_text(dict(manifest.body)) for manifest in bundle.manifests}
    for release in bundle.releases:
        content[f"releases/{release.name}.yaml"] = yaml_text(_release(release))
    content[INDEX] = _index(bundle)
    return content


def write(bundle: Bundle, folder: Path) -> Differences:
    """Make `folder` hold the rendering of `bundle`, and return what had to change. Raises OSError."""
    wanted = files(bundle)
    differences = compare(wanted, folder)
    stale = {*differences.missing, *differences.changed}
    for path in sorted(stale - {INDEX}):
        _replace(folder / path, wanted[path])
    for path in differences.extra:
        (folder / path).unlink()
        for parent in (folder / path).parents:
            if parent == folder or any(parent.iterdir()):
                break
            parent.rmdir()
    if INDEX in stale:
        _replace(folder / INDEX, wanted[INDEX])
    return differences


def _replace(target: Path, content: str) -> None:
    """Written aside and renamed, so that a killed run leaves no half file for Git to pick up."""
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(f".{target.name}.part")
    aside.write_bytes(content.encode())
    os.replace(aside, target)


def check(bundle: Bundle, folder: Path) -> Differences:
    """How `folder` differs from the rendering of `bundle`. Writes nothing."""
    return compare(files(bundle), folder)


def compare(wanted: dict[str, str], folder: Path) -> Differences:
    """How `folder` differs from `wanted`; extra are files that the folder's own index lists."""
    missing, changed = [], []
    for path, content in wanted.items():
        try:
            found = (folder / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            missing.append(path)
            continue
        if found != content.encode():
            changed.append(path)
    extra = [path for path in _listed(folder) if path not in wanted and os.path.isfile(folder / path)]
    return Differences(tuple(sorted(missing)), tuple(sorted(changed)), tuple(sorted(extra)))


def _listed(folder: Path) -> list[str]:
    """Paths in the index of an earlier rendering, without those that no rendering can have written: outside
    of `folder`, by name or through a link, or not an object's file."""
    try:
        entries = json.loads((folder / INDEX).read_text(encoding="utf-8"))["objects"]
        paths = [str(entry["path"]) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return [path for path in paths if path.endswith(".yaml") and _below(path, folder)]


def _below(path: str, folder: Path) -> bool:
    parts = PurePosixPath(path)
    if parts.is_absolute() or ".." in parts.parts or len(parts.parts) < 2 or "\0" in path:
        return False
    return (folder / parts).parent.resolve().is_relative_to(folder.resolve())


def _manifest_path(manifest: Manifest) -> str:
    """`<scope>/<kind>/<name>.yaml`: the namespace, `cluster`, or `patches` for objects of somebody else."""
    scope = "patches" if manifest.patch else manifest.namespace or "cluster"
    return f"{scope}/{manifest.kind.lower()}/{manifest.name}.yaml"


def _release(release: HelmRelease) -> dict[str, object]:
    return {
        "release": release.name,
        "namespace": release.namespace,
        "chart": release.chart,
        "repository": release.repository,
        "version": release.version,
        "values": dict(release.values),
    }


def _index(bundle: Bundle) -> str:
    """The list of files in application order, one a line so that changes merge well."""
    rows = [
        {
            "path": _manifest_path(m),
            "apiVersion": m.api_version,
            "kind": m.kind,
            "namespace": m.namespace,
            "name": m.name,
        }
        | ({"patch": True} if m.patch else {})
        for m in bundle.manifests
    ]
    rows += [
        {"path": f"releases/{r.name}.yaml", "kind": "HelmRelease", "name": r.name} for r in bundle.releases
    ]
    lines = ",\n".join("    " + json.dumps(row) for row in rows)
    head = json.dumps(bundle.environment)
    return f'{{\n  "schema": {_SCHEMA},\n  "environment": {head},\n  "objects": [\n{lines}\n  ]\n}}\n'
