"""Two objects of one bundle that are the same object to a cluster."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.policy.rules.bundle import BundleObject, ObjectSet
from gpupool.policy.rules.rule import RuleViolation

Key = tuple[str, str, str, str]


def key_of(item: BundleObject) -> Key:
    """Group, kind, namespace and name: versions of one group are views of one object."""
    return (item.group, item.kind, item.namespace, item.name)


def unique(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """Each object but the first of an identity. Objects without a name get one from the server."""
    first: dict[Key, BundleObject] = {}
    for item in bundle.objects:
        if not item.name:
            continue
        other = first.setdefault(key_of(item), item)
        if other is not item:
            place = f" ({other.file}:{other.line})" if other.file else ""
            message = f"{item} appears twice in the bundle{place}: the one that is applied last wins"
            yield RuleViolation(message, item, "metadata.name")
    releases = set[tuple[str, str]]()
    for release in bundle.releases:
        if (release.namespace, release.name) in releases:
            yield RuleViolation(f"{release} appears twice in the bundle", release, "release")
        releases.add((release.namespace, release.name))
