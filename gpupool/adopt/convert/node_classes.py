"""Node classes of every version -> image, IAM role and discovery tag: AWSNodeTemplate, EC2NodeClass, and the
`provider` that a Provisioner may have inline.

Karpenter's own fields by karpenter-provider-aws v1.14.1, pkg/apis/v1/ec2nodeclass.go; of v1alpha1 by release
0.31. What gpupool sets on every machine is what it generates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gpupool.adopt.convert import bottlerocket, machine_details
from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.draft import Draft, DraftPool, Values
from gpupool.adopt.convert.generated import generated_spec
from gpupool.adopt.convert.spec_words import fits
from gpupool.environment.plan.checks.images import BOTTLEROCKET, has_amazon_linux_2
from gpupool.environment.plan.cloud_facts import pinned_image

KINDS = ("AWSNodeTemplate", "EC2NodeClass")
_TAG = "karpenter.sh/discovery"
_SELECTORS = ("subnetSelectorTerms", "securityGroupSelectorTerms", "subnetSelector", "securityGroupSelector")
_EC2_DEFAULTS = {"metadataOptions": {"httpEndpoint": "enabled", "httpProtocolIPv6": "disabled"}}
"""EC2's own, which gpupool leaves alone."""
_DEFAULT_ALIAS = {"AL2": "al2@latest", "AL2023": "al2023@latest"}
_FAMILY = {"al2023": "AL2023"}
"""Image families that a pool can have to itself, by alias."""


@dataclass(slots=True)
class NodeClass:
    """What one node class says that gpupool has a place for."""

    part: Part
    """Where its fields are: `spec`, or a Provisioner's `spec.provider`."""
    name: str
    role: str | None = None
    tag: str | None = None
    alias: str | None = None
    image: dict[str, Any] | None = None
    """As `nodes.image` of a pool, where an alias does not say it."""
    details: Values = field(default_factory=dict)
    """Fields of `nodes`: disk, network, kubelet, placement, tags."""
    bottlerocket: str = ""
    """The field that says that the machines are Bottlerocket's, which a pool can't have; else empty."""


def read(spec: Part, name: str) -> NodeClass:
    """The node class whose fields are at `spec`."""
    node_class = NodeClass(spec, name)
    node_class.role = spec.text("role")
    node_class.details = machine_details.of_class(spec)
    _network(node_class)
    _image(node_class)
    spec.derives_as(generated_spec("EC2NodeClass", "eks"))
    spec.derives_as(_EC2_DEFAULTS)
    spec.at("instanceProfile").left(
        "gpupool sets the nodes' IAM role and lets Karpenter create the profile",
        "set karpenter.nodeRole to the role of that profile",
    )
    return node_class


def _network(found: NodeClass) -> None:
    """The discovery tag, where subnets and security groups are found by it alone; else the terms."""
    for name, (model, *fields) in machine_details.NETWORK.items():
        for part in filter(None, map(found.part.at, fields)):
            terms = machine_details.terms_at(part)
            value = part.word(_TAG) or part.word(0, "tags", _TAG)
            if (
                value
                and terms == [{"tags": {_TAG: value}}]
                and "*" not in value
                and found.tag in (None, value)
            ):
                part.used()
                found.tag = value
            elif carried := machine_details.network(part, model):
                found.details[name] = carried
            else:
                part.left(
                    "not a selector of subnets or security groups that gpupool supports",
                    f"select them by tags, id or name, or by {_TAG} (karpenter.discoveryTag)",
                )


def _image(found: NodeClass) -> None:
    spec = found.part
    family = str(spec.at("amiFamily").value) if spec.at("amiFamily") else ""
    user_data = spec.at("userData")
    terms = _terms(spec)
    aliases = [term["alias"] for term in terms if set(term) == {"alias"}]
    if not terms and not family and spec.document.kind == "EC2NodeClass":
        return
    if bottlerocket.is_image(family, aliases):
        _bottlerocket(found)
        return
    alias = aliases[0] if len(terms) == len(aliases) == 1 else None
    if not terms:
        alias = _DEFAULT_ALIAS.get(family or "AL2")
    if alias is not None and not user_data and fits("AMI alias", alias):
        found.alias = alias
    else:
        named = family or _FAMILY.get(str(alias).partition("@")[0])
        if alias is not None and not terms:
            terms = [{"alias": alias}]
        if named not in ("AL2023", "Custom") or not terms:
            _no_image(spec, named)
            return
        text = spec.word("userData")
        found.image = {"family": named, "selectorTerms": terms} | ({"userData": text} if text else {})
    spec.uses("amiFamily", "amiSelectorTerms", "amiSelector")
    spec.text("userData")


def _bottlerocket(found: NodeClass) -> None:
    """List the image, and of its settings what is not carried over; another image takes its place."""
    found.alias = pinned_image()
    for name in ("amiFamily", "amiSelectorTerms", "amiSelector"):
        if part := found.part.at(name):
            found.bottlerocket = found.bottlerocket or name
            part.left(BOTTLEROCKET, f"try {found.alias} in a small environment")
    shared = bottlerocket.read(found.part, found.name) is not None
    found.part.at("userData").left(
        "only its number of slices is carried over, to the pool's sharing: other images do not read the rest"
        if shared
        else "other images do not read Bottlerocket's settings",
        "move what the machines need to nodes.image.userData of the pool",
    )


def _no_image(spec: Part, family: str | None) -> None:
    for name in ("amiFamily", "amiSelectorTerms", "amiSelector", "userData"):
        spec.at(name).left(
            f"gpupool supports the image families AL2023 and Custom, not {family}",
            "set nodes.image of the pools to family Custom with their own userData",
        )


def _terms(spec: Part) -> list[dict[str, Any]]:
    """How the image is found, as amiSelectorTerms of v1; empty where nothing readable says it."""
    terms, old = spec.at("amiSelectorTerms").value, spec.at("amiSelector").value
    if isinstance(terms, list):
        return terms if all(isinstance(term, dict) and _is_term(term) for term in terms) else []
    if not isinstance(old, dict) or not _is_plain(old):
        return []
    named = {key: value for key, value in old.items() if key in ("aws-ids", "aws::ids")}
    if named:
        return [{"id": one.strip()} for value in named.values() for one in str(value).split(",")]
    words = {"aws::name": "name", "aws::owners": "owner"}
    term = {words[key]: value for key, value in old.items() if key in words}
    tags = {key: value for key, value in old.items() if key not in words}
    return [term | ({"tags": tags} if tags else {})]


def _is_term(term: dict[str, Any]) -> bool:
    """Whether its fields are text, but for the tags, which are texts by name."""
    own = [value for key, value in term.items() if key != "tags"]
    return all(isinstance(value, str) for value in own) and _is_plain(term.get("tags", {}))


def _is_plain(value: Any) -> bool:
    """Whether every scalar in `value` is text, as all of an image's selectors are."""
    if isinstance(value, dict):
        return all(_is_plain(inner) for inner in value.values())
    return isinstance(value, str)


def apply(draft: Draft, used: Sequence[tuple[DraftPool, NodeClass]], kubernetes: str | None = None) -> None:
    """What the node classes of the draft's pools say, on the pools and on the section `karpenter`;
    `kubernetes` is the cluster's version where it is known."""
    older = kubernetes is not None and has_amazon_linux_2(kubernetes)
    instead = pinned_image()
    classes = list({id(node_class): node_class for _, node_class in used}.values())
    for section, attribute, parts in (("nodeRole", "role", ("role",)), ("discoveryTag", "tag", _SELECTORS)):
        said = [(c, getattr(c, attribute)) for c in classes if getattr(c, attribute)]
        if said:
            draft.karpenter[section] = said[0][1]
        for other, value in said[1:]:
            if value != said[0][1]:
                for name in parts:
                    why = f"all pools share karpenter.{section}: {said[0][1]}"
                    other.part.at(name).left(why, "use one for all nodes")
    for node_class in classes:
        if str(node_class.alias).startswith("al2@") and not older:
            why = f"EKS has no Amazon Linux 2 images from Kubernetes 1.33 on; {instead} replaces it"
            node_class.part.note("todo", why, "try Amazon Linux 2023 in a small environment")
            node_class.alias = instead
        if node_class.bottlerocket:
            why = f"{instead} replaces Bottlerocket, which pools do not support"
            node_class.part.note("assumed", why, "see docs/known-limits.md", node_class.bottlerocket)
    aliases = [c.alias for c in classes if c.alias]
    if aliases:
        draft.karpenter["amiAlias"] = max(aliases, key=aliases.count)
    for pool, node_class in used:
        pool.image = node_class.image
        pool.details = {**node_class.details, **pool.details}
        if node_class.alias not in (None, draft.karpenter.get("amiAlias")):
            _own_alias(pool, node_class)


def _own_alias(pool: DraftPool, node_class: NodeClass) -> None:
    alias = str(node_class.alias)
    family = _FAMILY.get(alias.partition("@")[0])
    if family is None:
        _no_image(node_class.part, alias)
    else:
        pool.image = {"family": family, "selectorTerms": [{"alias": alias}]}
