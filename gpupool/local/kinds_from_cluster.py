"""`python -m gpupool.local.kinds_from_cluster`: writes vapcheck/server/kinds/*.json from a control plane.

Which kinds there are, where they live and which types their fields have comes from the server (discovery and
/openapi/v3); what the server does with an empty field comes from the Go types of the same release, whose JSON
tags decide it. Names and types only: no descriptions. Nothing but this command writes those files, and it is
run when the pinned release of Kubernetes changes. Needs `GPUPOOL_LOCAL_APIS=all gpupool local up` and Go.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpupool.cluster.kube_api import KubeApi
from gpupool.findings import GpupoolError
from gpupool.local.control_plane import ControlPlane
from gpupool.local.crds import module_folder
from gpupool.local.go_fields import Structs, structs_of

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
_OWN_GROUPS = re.compile(r"^[a-z]*$|\.k8s\.io$")


def write(api: KubeApi, target: Path) -> list[Path]:
    """Writes the files and returns them; those of packages that are no more are removed."""
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
    packages = _Packages(definitions)
    rows = []
    for group, version, kind, plural, namespaced in resources:
        name = kinds.get((group, version, kind))
        if name is not None:
            rows.append([group, version, kind, plural, namespaced, packages.reference(name, "")])
    written = [_write(target / "resources.json", rows)]
    written += [_write(target / f"{home}.json", types) for home, types in sorted(packages.types.items())]
    for old in set(target.glob("*.json")) - set(written):
        old.unlink()
    return written


def _write(path: Path, value: Any) -> Path:
    """One line for each kind or type, so that a change of release can be read as a difference."""
    path.parent.mkdir(exist_ok=True)
    if isinstance(value, list):
        lines = [json.dumps(row, separators=(",", ":")) for row in value]
        path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    else:
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

    def __init__(self, definitions: dict[str, Any]) -> None:
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
                fields[key] = _presence(presence.get(key, frozenset({"omitempty"})), kind) + kind
        return name if home == package else f"{home}.{name}"

    def _home(self, definition: str) -> tuple[str, str]:
        prefix = next((prefix for prefix in _PACKAGES if definition.startswith(prefix)), None)
        if prefix is None:
            raise GpupoolError(f"the definition {definition} is of no known Go module; add it to _PACKAGES")
        home, _, name = definition.removeprefix(prefix).rpartition(".")
        return home, name

    def _struct(self, definition: str, home: str) -> Structs:
        if home not in self._structs:
            prefix = next(prefix for prefix in _PACKAGES if definition.startswith(prefix))
            module, folder = _PACKAGES[prefix]
            self._structs[home] = structs_of(
                module_folder("kubernetes", module) / folder / home.replace(".", "/")
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


def main() -> int:
    """Writes the files; the exit code."""
    try:
        api = ControlPlane().api() if len(sys.argv) < 2 else KubeApi.connect(Path(sys.argv[1]))
        files = write(api, TARGET)
    except GpupoolError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{len(files)} files, {sum(path.stat().st_size for path in files) >> 10} KiB, in {TARGET}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
