"""Node classes of every version -> image, IAM role and discovery tag: AWSNodeTemplate, EC2NodeClass, and the
`provider` that a Provisioner may have inline.

Karpenter's own fields by karpenter-provider-aws v1.14.1, pkg/apis/v1/ec2nodeclass.go; of v1alpha1 by release
0.31. What gpupool sets on every machine is in `implied.yaml`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpupool.convert import bottlerocket
from gpupool.convert.account import Part
from gpupool.convert.draft import Draft, DraftPool
from gpupool.convert.implied import implied
from gpupool.convert.spec_words import fits
from gpupool.plan.checks.images import BOTTLEROCKET, LAST_AL2
from gpupool.plan.operator_releases import version_key

KINDS = ("AWSNodeTemplate", "EC2NodeClass")
_TAG = "karpenter.sh/discovery"
_SELECTORS = ("subnetSelectorTerms", "securityGroupSelectorTerms", "subnetSelector", "securityGroupSelector")
_DEFAULT_ALIAS = {"AL2": "al2@latest", "AL2023": "al2023@latest"}
_INSTEAD = "al2023@latest"
"""What takes the place of an image that the pool can't have."""
_FAMILY = {"al2023": "AL2023"}
"""Image families that a pool can have to itself, by alias."""


@dataclass(slots=True)
class NodeClass:
    """What one node class says that gpupool has a place for."""

    part: Part
    """Where its fields are: `spec`, or a Provisioner's `spec.provider`."""
    name: str
    role: str | None = None
    profile: str | None = None
    """An instance profile, where no role is given."""
    tag: str | None = None
    alias: str | None = None
    image: dict[str, Any] | None = None
    """As `nodes.image` of a pool, where an alias does not say it."""
    bottlerocket: str = ""
    """The field that says that the machines are Bottlerocket's, which a pool can't have; else empty."""


def read(spec: Part, name: str) -> NodeClass:
    """The node class whose fields are at `spec`."""
    found = NodeClass(spec, name)
    found.role = spec.text("role")
    _tag(found)
    _image(found)
    for field, value in implied()["nodeClass"].items():
        spec.says(value, field)
    if options := spec.at("metadataOptions"):
        for field, value in implied()["metadataOptions"].items():
            options.says(value, field)
    if profile := spec.at("instanceProfile"):
        found.profile = str(profile.value)
        profile.left(
            "gpupool names the nodes' IAM role and lets Karpenter make the profile",
            "write the role of that profile to karpenter.nodeRole",
        )
    return found


def _tag(found: NodeClass) -> None:
    """The value of the discovery tag, where subnets and security groups are found by it and nothing else."""
    for field in _SELECTORS:
        part = found.part.at(field)
        if part is None:
            continue
        tags = part.at(0, "tags") if isinstance(part.value, list) and len(part.value) == 1 else part
        value = tags.value.get(_TAG) if tags and isinstance(tags.value, dict) else None
        alone = tags is not None and isinstance(tags.value, dict) and set(tags.value) == {_TAG}
        alone = alone and (tags is part or set(part.value[0]) == {"tags"})
        if alone and isinstance(value, str) and "*" not in value and found.tag in (None, value):
            part.used()
            found.tag = value
        else:
            part.left(
                f"gpupool finds subnets and security groups by the tag {_TAG}, one value for all",
                f"tag them with {_TAG} and name the value in karpenter.discoveryTag",
            )


def _image(found: NodeClass) -> None:
    spec = found.part
    family, user_data = spec.at("amiFamily"), spec.at("userData")
    terms = _terms(spec)
    aliases = [term["alias"] for term in terms if set(term) == {"alias"}]
    if not terms and family is None and spec.document.kind == "EC2NodeClass":
        return
    if bottlerocket.is_image(family.value if family else None, aliases):
        _bottlerocket(found)
        return
    alias = aliases[0] if len(terms) == len(aliases) == 1 else None
    if not terms:
        alias = _DEFAULT_ALIAS.get(str(family.value) if family else "AL2")
    if alias is not None and user_data is None and fits("AMI alias", alias):
        found.alias = alias
    else:
        named = str(family.value) if family else _FAMILY.get(str(alias).partition("@")[0])
        if alias is not None and not terms:
            terms = [{"alias": alias}]
        if named not in ("AL2023", "Custom") or not terms:
            _no_image(spec, named)
            return
        text = user_data.value if user_data else None
        if user_data is not None and not isinstance(text, str):
            user_data.wrong("not text", "write text")
            text = None
        found.image = {"family": named, "selectorTerms": terms} | ({"userData": text} if text else {})
    for field in ("amiFamily", "amiSelectorTerms", "amiSelector", "userData"):
        if part := spec.at(field):
            part.used()


def _bottlerocket(found: NodeClass) -> None:
    """List the image, and of its settings what is not carried over; another image takes its place."""
    found.alias = _INSTEAD
    for field in ("amiFamily", "amiSelectorTerms", "amiSelector"):
        if part := found.part.at(field):
            found.bottlerocket = found.bottlerocket or field
            part.left(BOTTLEROCKET, f"try {_INSTEAD} in a small environment")
    if user_data := found.part.at("userData"):
        shared = bottlerocket.read(found.part, found.name) is not None
        user_data.left(
            "only its number of slices is carried over, to the pool's sharing: no other image reads the rest"
            if shared
            else "no other image reads Bottlerocket's settings",
            "write what the machines need to nodes.image.userData of the pool",
        )


def _no_image(spec: Part, family: str | None) -> None:
    for field in ("amiFamily", "amiSelectorTerms", "amiSelector", "userData"):
        if part := spec.at(field):
            part.left(
                f"gpupool has images of the families AL2023 and Custom, not {family}",
                "give the pools nodes.image with family Custom and userData of their own",
            )


def _terms(spec: Part) -> list[dict[str, Any]]:
    """How the image is found, as amiSelectorTerms of v1; empty where nothing readable says it."""
    terms = spec.at("amiSelectorTerms")
    if terms is not None and isinstance(terms.value, list):
        plain = [item for item in terms.value if isinstance(item, dict) and _is_plain(item)]
        return plain if len(plain) == len(terms.value) else []
    old = spec.at("amiSelector")
    if old is None or not isinstance(old.value, dict) or not _is_plain(old.value):
        return []
    named = {key: value for key, value in old.value.items() if key in ("aws-ids", "aws::ids")}
    if named:
        return [{"id": one.strip()} for value in named.values() for one in str(value).split(",")]
    words = {"aws::name": "name", "aws::owners": "owner"}
    term = {words[key]: value for key, value in old.value.items() if key in words}
    tags = {key: value for key, value in old.value.items() if key not in words}
    return [term | ({"tags": tags} if tags else {})]


def _is_plain(value: Any) -> bool:
    """Whether every scalar in `value` is text, as all of an image's selectors are."""
    if isinstance(value, dict):
        return all(_is_plain(inner) for inner in value.values())
    return isinstance(value, str)


def apply(draft: Draft, used: Sequence[tuple[DraftPool, NodeClass]], kubernetes: str | None = None) -> None:
    """What the node classes of the draft's pools say, on the pools and on the section `karpenter`;
    `kubernetes` is the cluster's version where it is known."""
    older = kubernetes is not None and version_key(kubernetes) <= LAST_AL2
    classes = list({id(node_class): node_class for _, node_class in used}.values())
    for section, field, parts in (("nodeRole", "role", ("role",)), ("discoveryTag", "tag", _SELECTORS)):
        said = [(c, getattr(c, field)) for c in classes if getattr(c, field)]
        if said:
            draft.karpenter[section] = said[0][1]
        for other, value in said[1:]:
            if value != said[0][1]:
                for name in parts:
                    if part := other.part.at(name):
                        part.left(
                            f"all pools have one karpenter.{section}: {said[0][1]}", "use one for all nodes"
                        )
    for node_class in classes:
        if str(node_class.alias).startswith("al2@") and not older:
            why = "EKS has no Amazon Linux 2 images from Kubernetes 1.33 on; al2023@latest takes its place"
            node_class.part.note("todo", why, "try Amazon Linux 2023 in a small environment")
            node_class.alias = _INSTEAD
        if node_class.bottlerocket:
            why = f"{_INSTEAD} takes the place of Bottlerocket, which no pool can have"
            node_class.part.note("assumed", why, "see docs/known-limits.md", node_class.bottlerocket)
    aliases = [c.alias for c in classes if c.alias]
    if aliases:
        draft.karpenter["amiAlias"] = max(aliases, key=aliases.count)
    for pool, node_class in used:
        pool.image = node_class.image
        if node_class.alias not in (None, draft.karpenter.get("amiAlias")):
            _own_alias(pool, node_class)
    for node_class in classes:
        _tags(node_class)


def _own_alias(pool: DraftPool, node_class: NodeClass) -> None:
    alias = str(node_class.alias)
    family = _FAMILY.get(alias.partition("@")[0])
    if family is None:
        _no_image(node_class.part, alias)
    else:
        pool.image = {"family": family, "selectorTerms": [{"alias": alias}]}


def _tags(node_class: NodeClass) -> None:
    """Tags on the machines: gpupool sets its own."""
    if tags := node_class.part.at("tags"):
        for key, part in tags.items():
            if key in ("gpupool.dev/environment", "gpupool.dev/pool"):
                part.derived()
            else:
                part.left(
                    "gpupool tags machines with their environment and pool only", "split costs by those"
                )
