"""What a delivery engine needs beside the rendered objects: annotations on the objects, and files of its own.

ENGINES is the only place where an engine of `delivery.engine` is registered. With engine pulumi nothing is
added, and rendered files have no trace of delivery. Engines do not depend on each other; what they share is
in `deletion_protection` (what must not be deleted by accident) and `kinds` (in which order). What else
applies to an engine is in `gpupool.environment.plan.delivery`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from gpupool.environment.plan.delivery import Delivery
from gpupool.environment.plan.model import Plan
from gpupool.generators import delivery_argocd, delivery_flux
from gpupool.generators.delivery_halt import Halt
from gpupool.generators.manifest import Bundle, Manifest, Part


class EngineModule(Protocol):
    """The interface of an engine's module."""

    START: str
    """How a person tells the engine of the rendering, once: options of `kubectl apply` before a folder ..."""
    FOLDER: str
    """... and the folder, relative to the rendering. The rest the engine reads from the repository."""

    def notes(self, manifest: Manifest, delivery: Delivery, /) -> Mapping[str, str]:
        """Annotations that an object carries for the engine."""

    def wrappers(self, bundle: Bundle, /) -> Mapping[str, Mapping[str, Any]]:
        """Relative path -> object that tells the engine about the rendering."""

    def delivering(self, bundle: Bundle, /) -> Iterable[Mapping[str, Any]]:
        """Those of the wrappers that deliver, and whose state says how that goes; none where they are in
        another cluster than the environment's."""

    def halt(self, live: Mapping[str, Any], delivery: Delivery, /) -> Halt | None:
        """What keeps one of them, as it is in the cluster, from delivering."""

    def keeps(self, annotations: Mapping[str, str], /) -> bool:
        """Whether an object with these stays when its file is gone."""

    def resync(self, plan: Plan, parts: Iterable[Part], /) -> str:
        """The command that asks the engine to put back what the file says, edits by hand included."""


ENGINES: Mapping[str, EngineModule] = {"argocd": delivery_argocd, "flux": delivery_flux}


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


def delivering(bundle: Bundle) -> tuple[Mapping[str, Any], ...]:
    """The engine's objects whose state in the environment's cluster says how delivery goes."""
    engine = ENGINES.get(bundle.delivery.engine)
    return tuple(engine.delivering(bundle)) if engine else ()


def halt(delivery: Delivery, live: Mapping[str, Any]) -> Halt | None:
    """What keeps such an object, as it is in the cluster, from delivering."""
    engine = ENGINES.get(delivery.engine)
    return engine.halt(live, delivery) if engine else None


def keeps(delivery: Delivery, annotations: Mapping[str, str]) -> bool:
    """Whether the engine leaves an object with these annotations in the cluster when its file is gone."""
    engine = ENGINES.get(delivery.engine)
    return engine is not None and engine.keeps(annotations)


def start(delivery: Delivery, rendering: str) -> str | None:
    """The command that registers a rendering in that folder with the engine; None where `gpupool up`
    applies."""
    engine = ENGINES.get(delivery.engine)
    return f"kubectl apply {engine.START} {rendering}/{engine.FOLDER}" if engine else None


def is_registration(delivery: Delivery, path: str) -> bool:
    """Whether the file at `path`, relative to the rendering, is one that the command of `start` applies."""
    engine = ENGINES.get(delivery.engine)
    return engine is not None and path.startswith(f"{engine.FOLDER}/")
