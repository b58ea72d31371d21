"""Where each object's file lies in a rendering: stable paths, relative to the folder of the rendering."""

from __future__ import annotations

from gpupool.generators.manifest import HelmRelease, Manifest

INDEX = "index.json"
DELIVERY = "delivery"
"""Folder of the files that point Argo CD or Flux to the rest. A tenant's namespace may have this name as
well: its files lie directly in it, and those of delivery in folders below."""


def manifest_path(manifest: Manifest) -> str:
    """`<scope>/<kind>-<name>.yaml`: the namespace, `cluster`, or `patches` for objects of somebody else. No
    kind has a dash, so two objects never meet; a folder for each kind would cost more than its one file."""
    scope = "patches" if manifest.patch else manifest.namespace or "cluster"
    return f"{scope}/{manifest.kind.lower()}-{manifest.name}.yaml"


def release_path(release: HelmRelease) -> str:
    """`releases/<name>.yaml`: a description for people and other tools, no object of Kubernetes."""
    return f"releases/{release.name}.yaml"
