"""A draft as the text of an environment file: readable, commented, in the style of environments/*.yaml.

Short values are on one line, long ones in blocks. The file has what the draft says and nothing else:
defaults are left out. Strings are quoted wherever a reader of YAML could take them for anything else.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pydantic.alias_generators import to_camel

from gpupool.adopt.convert.draft import Draft, DraftPool
from gpupool.environment.spec.yaml_scalars import plain_value
from gpupool.findings.terminal import one_line

_WIDTH = 110
_PLAIN = re.compile(
    r"[A-Za-z0-9/][A-Za-z0-9_./+@-]*(:[A-Za-z0-9_./-]+)*|[A-Za-z][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)+"
)
_SCHEMA = "../gpupool/environment/schema/environment.schema.json"
"""Where the schema is, seen from the file."""
_NOT_ASCII = re.compile(r"[^ -~]")
_DEFAULTS = {
    "consolidate_after": "10m",
    "reserved_consolidate_after": "Never",
    "expire_after": "Never",
    "termination_grace_period": None,
}


def text(draft: Draft) -> str:
    """The file."""
    lines = [f"# yaml-language-server: $schema={_SCHEMA}", *_comment(draft.origin, "")]
    lines += ["apiVersion: gpupool.dev/v1alpha1", "kind: Environment"]
    lines.append(f"metadata: {flow({'name': draft.name})}")
    lines += _field("cluster", _cluster(draft), "")
    for section, value in (("gpuOperator", draft.operator), ("karpenter", draft.karpenter)):
        if value and (section == "gpuOperator" or draft.platform != "static"):
            lines += _field(section, value, "")
    lines += ["", "pools:" if draft.pools else "pools: []"]
    for pool in draft.pools:
        lines += _pool(pool)
    lines += _comment([f"left out: {line}" for line in draft.left_out], "  " if draft.pools else "")
    for name, items in (("priorities", draft.priorities), ("tenants", draft.tenants)):
        if items:
            lines += ["", f"{name}:"]
            for item in items:
                lines += _item(item, "  ")
    for section, value, origin in (
        ("policies", draft.policies, draft.policies_origin),
        ("monitoring", draft.monitoring, []),
    ):
        if value:
            lines += ["", *_comment(origin, ""), *_field(section, value, "")]
    return "\n".join(lines) + "\n"


def _cluster(draft: Draft) -> dict[str, Any]:
    fields = {
        "platform": draft.platform,
        "name": draft.cluster_name,
        "region": draft.region,
        "kubernetesVersion": draft.kubernetes_version,
        "kubeContext": draft.kube_context,
    }
    return {key: value for key, value in fields.items() if value is not None}


def _pool(pool: DraftPool) -> list[str]:
    lines = _comment(pool.origin, "  ")
    fields: dict[str, Any] = {"gpu": pool.gpu}
    if pool.sharing != {"mode": "exclusive"}:
        fields["sharing"] = pool.sharing
    fields["nodes"] = _nodes(pool)
    if pool.overcommit:
        fields["overcommit"] = True
    if pool.jobs_only:
        fields["jobsOnly"] = True
    if pool.labels:
        fields["labels"] = pool.labels
    if pool.taints is not None:
        fields["taints"] = pool.taints
    maintenance = {"maxUnavailable": pool.max_unavailable, "window": pool.window}
    said = {key: value for key, value in maintenance.items() if value is not None and value != 1}
    if said:
        fields["maintenance"] = said
    lines.append(f"  - name: {scalar(pool.name)}")
    for key, value in fields.items():
        lines += _field(key, value, "    ")
    return lines


def _nodes(pool: DraftPool) -> dict[str, Any]:
    """`nodes` with what is not the default."""
    fields: dict[str, Any] = {}
    if pool.names or pool.selector:
        fields = {"names": pool.names} if pool.names else {"selector": pool.selector, "max": pool.max}
        if (pool.gpus or 1) > 1:
            fields["gpus"] = pool.gpus
        return fields
    size = {"max": pool.max} if pool.max_gpus is None else {"maxGpus": pool.max_gpus}
    fields = {"instanceTypes": pool.instance_types, **size}
    for key, value in (
        ("warm", pool.warm),
        ("spotShare", pool.spot_share),
        ("capacity", pool.capacity),
        ("reserved", pool.reserved),
        ("zones", pool.zones),
    ):
        if value:
            fields[key] = value
    if pool.image:
        fields["image"] = pool.image
    fields |= pool.details
    for name, default in _DEFAULTS.items():
        value = getattr(pool, name)
        if value is not None and value != default:
            fields[to_camel(name)] = value
    return fields


def _comment(lines: Iterable[str], indent: str) -> list[str]:
    """Lines of comment. Nothing in them can end the comment: line breaks are written as escapes."""
    result = []
    for line in lines:
        width = _WIDTH - len(indent) - 2
        wrapped = textwrap.wrap(one_line(line), width, break_long_words=False, break_on_hyphens=False)
        result += [f"{indent}# {part}" for part in wrapped]
    return result


def _field(key: str, value: Any, indent: str) -> list[str]:
    """`key: value`, on one line where it is short enough and in a block where it is not."""
    head = f"{indent}{scalar(key)}:"
    line = f"{head} {flow(value)}"
    if isinstance(value, str) and "\n" in value and _is_block(value):
        return [f"{head} |", *(f"{indent}  {part}" if part else "" for part in value[:-1].split("\n"))]
    if len(line) <= _WIDTH and not _has_block(value):
        return [line]
    if isinstance(value, Mapping) and value:
        return [head, *(part for name, inner in value.items() for part in _field(name, inner, f"{indent}  "))]
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        return [head, *(part for item in value for part in _item(item, f"{indent}  "))]
    return [line]


def _item(value: Any, indent: str) -> list[str]:
    line = f"{indent}- {flow(value)}"
    if not isinstance(value, Mapping) or not value or (len(line) <= _WIDTH and not _has_block(value)):
        return [line]
    lines = [part for name, inner in value.items() for part in _field(name, inner, f"{indent}  ")]
    return [f"{indent}- {lines[0].removeprefix(f'{indent}  ')}", *lines[1:]]


def _has_block(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_has_block, value.values()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return any(map(_has_block, value))
    return isinstance(value, str) and "\n" in value and _is_block(value)


def _is_block(value: str) -> bool:
    """Whether a literal block keeps the text as it is: printable lines, the first not indented, one line feed
    at the end."""
    return re.fullmatch(r"[!-~][ -~]*\n([ -~]*\n)*[ -~]*[!-~][ -~]*\n|[!-~][ -~]*\n", value) is not None


def flow(value: Any) -> str:
    """`value` on one line."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key)}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def scalar(value: Any) -> str:
    """A scalar that every reader of YAML reads alike."""
    if isinstance(value, str):
        if _PLAIN.fullmatch(value) and isinstance(plain_value(value), str):
            return value
        return _NOT_ASCII.sub(_escaped, json.dumps(value, ensure_ascii=False))
    if isinstance(value, float):
        digits = format(Decimal(repr(value)), "f")
        return (
            f"{value:.0f}"
            if value == int(value) and abs(value) < 1e15
            else f"{digits}{'' if '.' in digits else '.0'}"
        )
    return json.dumps(value)


def _escaped(found: re.Match[str]) -> str:
    """A character as YAML escapes it; JSON's two halves of one beyond U+FFFF are no character to it."""
    code = ord(found[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
