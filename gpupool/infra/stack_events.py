"""What the engine's events amount to: one entry per object, with the fields that change.

Folds the stream into an Outcome; the fields are worked out from old and new inputs (`field_changes`), so
they read alike whichever provider serves. Prints nothing.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from gpupool.environment.plan.model import POOL_LABEL
from gpupool.findings.json_output import JsonObject
from gpupool.generators.manifest import Manifest
from gpupool.live.cluster.kube_api import in_words
from gpupool.live.objects.field_changes import FieldChange, field_changes
from gpupool.live.objects.resource_values import FIELD_MANAGER_ANNOTATION, logical_name

_ANSI = re.compile(r"\x1b\[[0-9;]*m|<\{%.*?%\}>")
_HIDDEN = (("metadata", "annotations", FIELD_MANAGER_ANNOTATION), ("__defaults",))
"""What Pulumi keeps among an object's inputs for itself."""
_LINES = 2
_NOISE = ("update failed", "preview failed", "refresh failed", "destroy failed")
"""Lines that only repeat that something failed, without what."""
_OPERATIONS = {
    "create": "create",
    "update": "update",
    "delete": "delete",
    "same": "same",
    "replace": "replace",
    "create-replacement": "replace",
    "delete-replaced": "replace",
    "discard-replaced": "replace",
    "refresh": "same",
    "import": "create",
}


@dataclass(slots=True)
class ObjectChange:
    """What happens, or happened, to one object."""

    op: str
    """create, update, replace, delete or same."""
    kind: str
    namespace: str | None
    name: str
    pool: str | None
    resource: str
    """The name in Pulumi, `NodePool/research-a100`."""
    fields: tuple[FieldChange, ...] = ()
    done: bool = False
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The object as `--format json` promises it."""
        return _ObjectJson.of(self)

    def __str__(self) -> str:
        return "/".join(filter(None, (self.kind, self.namespace, self.name)))


class _FieldJson(JsonObject):
    path: str
    old: Any
    new: Any


class _ObjectJson(JsonObject):
    op: str
    kind: str
    namespace: str | None
    name: str
    pool: str | None
    fields: list[_FieldJson]
    error: str | None


@dataclass
class EngineOutcome:
    """Everything that one run of the engine reports."""

    objects: dict[str, ObjectChange] = field(default_factory=dict)
    """By URN."""
    errors: list[str] = field(default_factory=list)
    """What went wrong, each with the object it is about."""
    lines: dict[str, str] = field(default_factory=dict)
    """By URN: the one of `errors` that is about it."""
    warnings: list[str] = field(default_factory=list)

    @property
    def changed(self) -> list[ObjectChange]:
        """The objects that do not stay as they are, in a stable order."""
        entries = [entry for entry in self.objects.values() if entry.op != "same"]
        return sorted(entries, key=lambda entry: (entry.kind, entry.namespace or "", entry.name))

    @property
    def counts(self) -> dict[str, int]:
        """Operation -> how many objects; operations that do not occur are left out."""
        found = Counter(entry.op for entry in self.objects.values())
        return {op: found[op] for op in ("create", "update", "replace", "delete", "same") if found[op]}


class Collector:
    """Receives engine events, from whatever thread, and builds the Outcome."""

    def __init__(self, notify: Callable[[str], None] = lambda _: None) -> None:
        self.outcome = EngineOutcome()
        self.silent = False
        """Whether steps are reported no longer: something else is to be read."""
        self._notify = notify
        self._lock = threading.Lock()
        self._last_texts: dict[str, str] = {}

    def __call__(self, event: Any) -> None:
        with self._lock:
            if event.resource_pre_event is not None:
                self._step(event.resource_pre_event.metadata, done=False)
            elif event.res_outputs_event is not None:
                self._step(event.res_outputs_event.metadata, done=True)
            elif event.res_op_failed_event is not None:
                self._failed(event.res_op_failed_event.metadata)
            elif event.diagnostic_event is not None:
                self._diagnostic(event.diagnostic_event)

    def _step(self, step: Any, done: bool) -> None:
        if step.type.startswith("pulumi:"):
            return
        op = _OPERATIONS.get(str(getattr(step.op, "value", step.op)))
        if op is None:
            return
        known = self.outcome.objects.get(step.urn)
        entry = _object(op, step)
        if known is not None and op == "replace" and known.fields:
            entry.fields = known.fields
        entry.done = done
        self.outcome.objects[step.urn] = entry
        # A replacement comes in several steps, which are one to the reader.
        again = op == "replace" and known is not None and known.op == op
        if not (done or op == "same" or again or self.silent):
            self._notify(f"{op} {entry}")

    def _failed(self, step: Any) -> None:
        entry = self.outcome.objects.get(step.urn)
        if entry is not None:
            entry.error = self._last_texts.get(step.urn, "failed")

    def _diagnostic(self, event: Any) -> None:
        text = _ANSI.sub("", event.message).strip()
        if event.severity not in ("error", "warning") or not text or text in _NOISE:
            return
        urn = event.urn or ""
        if event.severity == "warning" and not urn:
            return  # of the engine about itself and its plugins: `gpupool doctor` says which ones serve
        name = urn.rpartition("::")[2] if "::" in urn and "pulumi:pulumi:Stack" not in urn else ""
        text = in_words(brief(text.replace(f'"{urn}"', name) if name else text))
        self._last_texts[urn] = text
        entry = self.outcome.objects.get(urn)
        if entry is not None and event.severity == "error":  # a preview has no event for a failed step
            entry.error = text
        line = text if not name or text.startswith(name.split("/")[0]) else f"{name}: {text}"
        rows = self.outcome.errors if event.severity == "error" else self.outcome.warnings
        if line not in rows:
            rows.append(line)
        if name and event.severity == "error":
            self.outcome.lines[urn] = line


def brief(text: str) -> str:
    """The first two lines of what a provider says, as one: after them comes advice of its own."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:_LINES])


def _object(op: str, step: Any) -> ObjectChange:
    old = dict((step.old.inputs if step.old else None) or {})
    new = dict((step.new.inputs if step.new else None) or {})
    body = new or old
    metadata = body.get("metadata") or {}
    kind = str(body.get("kind") or step.type.rpartition(":")[2])
    labels = metadata.get("labels") or {}
    name = step.urn.rpartition("::")[2]
    return ObjectChange(
        op=op,
        kind=kind,
        namespace=metadata.get("namespace") or body.get("namespace"),
        name=str(metadata.get("name") or body.get("name") or name.rpartition("/")[2]),
        pool=labels.get(POOL_LABEL),
        resource=name,
        fields=field_changes(old, new, _HIDDEN) if op in ("update", "replace") and old and new else (),
    )


def deletion(row: Mapping[str, Any]) -> ObjectChange:
    """The deletion of a resource as the state has it (a row of the deployment)."""
    old = SimpleNamespace(inputs=row.get("inputs"))
    return _object("delete", SimpleNamespace(urn=row["urn"], type=row["type"], old=old, new=None))


def drifted(row: Mapping[str, Any], inputs: Mapping[str, Any]) -> ObjectChange:
    """The change that others have made to a resource: as the state has it, to `inputs`."""
    old, new = SimpleNamespace(inputs=row.get("inputs")), SimpleNamespace(inputs=inputs)
    change = _object("update", SimpleNamespace(urn=row["urn"], type=row["type"], old=old, new=new))
    change.done = True
    return change


def removal(manifest: Manifest, done: bool = False, error: str | None = None) -> ObjectChange:
    """The deletion of an object that the engine does not know."""
    return ObjectChange(
        op="delete",
        kind=manifest.kind,
        namespace=manifest.namespace,
        name=manifest.name,
        pool=manifest.labels.get(POOL_LABEL),
        resource=logical_name(manifest),
        done=done,
        error=error,
    )
