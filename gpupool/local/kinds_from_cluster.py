"""`python -m gpupool.local.kinds_from_cluster`: writes vapcheck/server/kinds/*.json from API servers.

Of each minor that is known a server runs meanwhile (`bare_server`). The newest is written whole, of each
older one what differs from it (1.33.json).

Which kinds there are, where they live and which types their fields have comes from the server (discovery and
/openapi/v3); what the server does with an empty field comes from the Go types of the same release, whose JSON
tags decide it, and from the feature gates that they name: a field whose gate is off in an older minor and on
in the newest is marked as one that the server drops there. Names and types only: no descriptions. Nothing but
this command writes those files, and it is run when a pinned release of Kubernetes changes. Needs Go, and
GPUPOOL_LOCAL_APIS=all for alpha and beta versions.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from gpupool.findings import GpupoolError
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.local.bare_server import bare_server, program_of
from gpupool.local.components import APIS_VARIABLE
from gpupool.local.crds import module_folder
from gpupool.local.go_fields import Structs, structs_of
from gpupool.programs import binaries
from vapcheck import DROPPED, MINORS, NEWEST

TARGET = Path(__file__).parents[2] / "vapcheck" / "server" / "kinds"
_PACKAGES = {  # start of the name of a definition in OpenAPI: module, folder in it
    "io.k8s.api.": ("k8s.io/api", ""),
    "io.k8s.apimachinery.pkg.apis.": ("k8s.io/apimachinery", "pkg/apis/"),
    "io.k8s.apiextensions-apiserver.pkg.apis.": ("k8s.io/apiextensions-apiserver", "pkg/apis/"),
    "io.k8s.kube-aggregator.pkg.apis.": ("k8s.io/kube-aggregator", "pkg/apis/"),
}
_SPECIAL = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "micro-time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Duration": "string",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
}
_KEPT_ANYWAY = {("1.33", "tolerations"), ("1.34", "tolerations")}
"""Minor and name of fields of resource.k8s.io that the server of that minor keeps although their gate, which
their comments name, is off (seen on it: device-toleration in tests/vapcheck/minors)."""
_OWN_GROUPS = re.compile(r"^[a-z]*$|\.k8s\.io$")
_GATE = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)",stage="\w*"\} 0$', re.MULTILINE)
Files = dict[str, dict[str, Any]]
"""What the data files hold, by name without `.json`."""


def write(newest: Files, older: Mapping[str, Files], target: Path) -> list[Path]:
    """Writes the files of the newest minor, and of each older one what differs. Returns them; those of
    packages that are no more are removed."""
    older = {minor: _marked(files, newest) for minor, files in older.items()}
    newest = _marked(newest, newest)
    written = [_write(target / f"{name}.json", content) for name, content in sorted(newest.items())]
    written += [_write(target / f"{minor}.json", _patch(newest, files)) for minor, files in older.items()]
    for old in set(target.glob("*.json")) - set(written):
        old.unlink()
    return written


def read(api: KubeApi, minor: str) -> Files:
    """What a server knows: its resources, and by Go package the types of their fields, with the mark DROPPED
    where a feature gate is off. `minor`: the server's, whose Go modules are those that it is built of."""
    resources = sorted(_resources(api))
    definitions: dict[str, Any] = {}
    kinds: dict[tuple[str, str, str], str] = {}
    for group, version in sorted({row[:2] for row in resources}):
        path = f"/openapi/v3/apis/{group}/{version}" if group else f"/openapi/v3/api/{version}"
        found = api.request("GET", path)[1]["components"]["schemas"]
        definitions |= found
        for name, schema in found.items():
            for gvk in schema.get("x-kubernetes-group-version-kind", ()):
                kinds.setdefault((gvk["group"], gvk["version"], gvk["kind"]), name)
    packages = _Packages(definitions, minor, set(_GATE.findall(api.request("GET", "/metrics")[1])))
    rows = {}
    for group, version, kind, plural, namespaced in resources:
        name = kinds.get((group, version, kind))
        if name is not None:
            key = f"{group}/{version} {kind}" if group else f"{version} {kind}"
            rows[key] = [plural, namespaced, packages.reference(name, "")]
    return {"resources": rows, **packages.types}


def _marked(files: Files, newest: Files) -> Files:
    """`files` without the marks of fields that the newest minor drops too, or does not have: those are alpha
    everywhere, and judged as if their gates were on."""
    return {
        name: {key: _unmarked(value, newest.get(name, {}).get(key, {})) for key, value in content.items()}
        for name, content in files.items()
    }


def _unmarked(fields: Any, newest: Any) -> Any:
    if not isinstance(fields, dict):
        return fields
    return {
        key: text.removeprefix(DROPPED) if newest.get(key, DROPPED).startswith(DROPPED) else text
        for key, text in fields.items()
    }


def _patch(old: Any, new: Any) -> Any:
    """The JSON merge patch (RFC 7386) that makes `new` of `old`."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old or not isinstance(value, dict):
            if key not in old or value != old[key]:
                patch[key] = value
        elif inner := _patch(old[key], value):
            patch[key] = inner
    return patch


def _write(path: Path, value: dict[str, Any]) -> Path:
    """One line for each kind or type, so that a change of release can be read as a difference."""
    path.parent.mkdir(exist_ok=True)
    lines = [f"{json.dumps(k)}:{json.dumps(v, separators=(',', ':'))}" for k, v in sorted(value.items())]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return path


def _resources(api: KubeApi) -> Iterator[tuple[str, str, str, str, bool]]:
    """(group, version, kind, plural, namespaced) of what the server itself has, not of CRDs."""
    groups = {"": ["v1"]}
    for group in api.request("GET", "/apis")[1]["groups"]:
        groups[group["name"]] = [row["version"] for row in group["versions"]]
    custom = {row["spec"]["group"] for row in api.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")}
    for group, versions in groups.items():
        if group in custom or not _OWN_GROUPS.search(group):
            continue
        for version in versions:
            root = f"/apis/{group}/{version}" if group else f"/api/{version}"
            for row in api.request("GET", root)[1]["resources"]:
                if "/" not in row["name"] and not row.get("group"):
                    yield group, version, row["kind"], row["name"], row["namespaced"]


class _Packages:
    """The types that were asked for and all that they refer to, by Go package (`core.v1`)."""

    def __init__(self, definitions: dict[str, Any], minor: str, gates_off: Set[str]) -> None:
        self._minor = minor
        self._tool = binaries.programs()[program_of(minor)].tool
        self._off = {f"gate:{name}" for name in gates_off}
        self._definitions = definitions
        self.types: dict[str, dict[str, Any]] = {}
        self._structs: dict[str, Structs] = {}

    def reference(self, definition: str, package: str) -> str:
        """How a field in `package` names the definition; its fields are collected."""
        special = _SPECIAL.get(definition)
        if special:
            return special
        home, name = self._home(definition)
        schema = self._definitions[definition]
        if not schema.get("properties"):
            if schema.get("type") == "object" or "type" not in schema:
                return "any"
            return self._type(schema, package)
        if name not in self.types.setdefault(home, {}):
            self.types[home][name] = fields = {}
            presence = self._struct(definition, home)[name]
            for key, field in sorted(schema["properties"].items()):
                kind = self._type(field, home)
                options = presence.get(key, frozenset({"omitempty"}))
                kept = not options & self._off or (
                    home.startswith("resource.") and (self._minor, key) in _KEPT_ANYWAY
                )
                mark = "" if kept else DROPPED
                fields[key] = mark + _presence(options, kind) + kind
        return name if home == package else f"{home}.{name}"

    def _home(self, definition: str) -> tuple[str, str]:
        prefix = next((prefix for prefix in _PACKAGES if definition.startswith(prefix)), None)
        if prefix is None:
            raise GpupoolError(
                f"the definition {definition} belongs to no known Go module; add it to _PACKAGES"
            )
        home, _, name = definition.removeprefix(prefix).rpartition(".")
        return home, name

    def _struct(self, definition: str, home: str) -> Structs:
        if home not in self._structs:
            prefix = next(prefix for prefix in _PACKAGES if definition.startswith(prefix))
            module, folder = _PACKAGES[prefix]
            self._structs[home] = structs_of(
                module_folder(self._tool, module) / folder / home.replace(".", "/")
            )
        return self._structs[home]

    def _type(self, schema: dict[str, Any], package: str) -> str:
        reference = schema.get("$ref") or next((p.get("$ref") for p in schema.get("allOf", ())), None)
        if reference:
            return self.reference(reference.rpartition("/")[2], package)
        if schema.get("x-kubernetes-int-or-string"):
            return "int-or-string"
        match schema.get("type"), schema.get("format"):
            case "array", _:
                return "[]" + self._type(schema["items"], package)
            case "object", _ if "additionalProperties" in schema:
                return "{}" + self._type(schema["additionalProperties"], package)
            case "string", "byte":
                return "bytes"
            case "string", "date-time":
                return "time"
            case "integer", "int32":
                return "int32"
            case ("string" | "integer" | "number" | "boolean") as name, _:
                return str(name)
        return "any"


def _presence(options: frozenset[str], kind: str) -> str:
    """How the server writes a field: "" left out when empty, "?" left out when null only, "!" always there
    with its zero value, "*" always there and null if need be."""
    may_go = bool(options & {"omitempty", "omitzero"})
    if "pointer" in options:
        return "?" if may_go else "*"
    if kind in ("string", "integer", "int32", "number", "boolean"):
        return "" if may_go else "!"
    if kind.startswith(("[]", "{}")) or kind == "bytes":
        return "" if may_go else "*"
    # A struct is never empty to Go's encoder, whatever omitempty says; omitzero does leave it out.
    if "omitzero" in options:
        return ""
    return "*" if kind in ("time", "micro-time", "any") else "!"


def read_each(report: Callable[[str], None]) -> dict[str, Files]:
    """What a server of each known minor knows, by minor."""
    known = {}
    for minor in MINORS:
        report(f"reading Kubernetes {minor}")
        with bare_server(minor, report) as plane, contextlib.closing(plane.api()) as api:
            known[minor] = read(api, minor)
    return known


def main() -> int:
    """Writes the files; the exit code."""
    try:
        if os.environ.get(APIS_VARIABLE) != "all":
            raise GpupoolError(
                f"alpha and beta versions would be missing; set {APIS_VARIABLE}=all (make kinds)"
            )
        known = read_each(lambda step: print(step, file=sys.stderr, flush=True))
        files = write(known.pop(NEWEST), known, TARGET)
    except GpupoolError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(files)} files, {sum(path.stat().st_size for path in files) >> 10} KiB, in {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
