"""What a delivery engine needs beside the rendered objects: annotations on the objects, and files of its own.

ENGINES is the only place where an engine of `delivery.engine` is registered. With engine pulumi nothing is
added, and rendered files have no trace of delivery. Engines do not depend on each other; what they share is
here (what must not be deleted by accident) and in `generators.waves` (the order).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from generators import delivery_argocd, delivery_flux
from generators.manifest import Bundle, Manifest
from gpupool.plan.delivery import Delivery


@dataclass(frozen=True, slots=True)
class Engine:
    notes: Callable[[Manifest, Delivery], Mapping[str, str]]
    """Annotations that an object carries for the engine."""
    wrappers: Callable[[Bundle], Mapping[str, Mapping[str, Any]]]
    """Relative path -> object that points the engine to the rendering."""
    start: str
    """How a person registers the rendering with the engine, once: options of `kubectl apply` before a folder
    ..."""
    folder: str
    """... and the folder, relative to the rendering."""


ENGINES: Mapping[str, Engine] = {
    "argocd": Engine(delivery_argocd.notes, delivery_argocd.wrappers, "-f", delivery_argocd.FOLDER),
    "flux": Engine(delivery_flux.notes, delivery_flux.wrappers, "-k", delivery_flux.FOLDER),
}


def body(manifest: Manifest, delivery: Delivery) -> Mapping[str, Any]:
    """The object as the engine is to apply it."""
    engine = ENGINES.get(delivery.engine)
    notes = engine.notes(manifest, delivery) if engine else {}
    if not notes:
        return manifest.body
    metadata = manifest.body["metadata"]
    annotations = {**metadata.get("annotations", {}), **notes}
    return {**manifest.body, "metadata": {**metadata, "annotations": annotations}}


def wrappers(bundle: Bundle) -> dict[str, Mapping[str, Any]]:
    """Relative path -> every object beside the environment's own; empty where `gpupool up` applies."""
    engine = ENGINES.get(bundle.delivery.engine)
    return dict(engine.wrappers(bundle)) if engine else {}


def start(delivery: Delivery, rendering: str) -> str | None:
    """The command that registers a rendering in that folder with the engine; None where `gpupool up`
    applies."""
    engine = ENGINES.get(delivery.engine)
    return f"kubectl apply {engine.start} {rendering}/{engine.folder}" if engine else None
