"""The pool-shaped part of one environment's file, carried into another's text.

Texts in, text out. What stays is decided by `gpupool.review.promote.rules`, how text is changed by
`gpupool.environment.yaml_edit`. The result is read again and compared before it is returned: it has what
should be promoted, and nothing else has changed. The caller checks that it is a valid environment
(`gpupool.environment.plan.resolve`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupool.environment.spec.promotion import SECTIONS
from gpupool.environment.spec.yaml_source import parse_source, value_at
from gpupool.environment.yaml_edit import Text, flow_text
from gpupool.findings import GpupoolError, SpecError
from gpupool.review.promote.environment_file import (
    EnvironmentFile,
    changed_that_stay,
    named,
    read_environment_file,
)
from gpupool.review.promote.rules import PromotionRules
from gpupool.review.promote.shape import (
    NAMED,
    Difference,
    Loc,
    Shape,
    differences,
    fields,
    leaves,
    parts,
    path_of,
    shape_of,
)

_WITH_THE_GPU = ("nodes.instanceTypes", "nodes.usdPerHour")
"""Fields of a pool that stay, but that a pool with another GPU can't keep."""


@dataclass(frozen=True, slots=True)
class PromotionOptions:
    """The options of a promotion, besides its source and target."""

    only: frozenset[str] = frozenset()
    """Names of pools, or of sections; empty for everything."""
    delete: bool = False
    """Whether to delete pools and priorities that the source does not have."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """`max` or `maxGpus` of the nodes of pools that are new, where the source's pool has the field; default:
    the source's."""


@dataclass(frozen=True, slots=True)
class Promoted:
    text: str
    changes: tuple[Difference, ...]
    """What differed and now is equal."""
    new: tuple[str, ...]
    """New pools whose sizes a person should check."""
    left: tuple[str, ...]
    """Pools and priorities that the source does not have and that were kept, because deleting was not
    allowed."""


def promote(
    source: EnvironmentFile, target: EnvironmentFile, rules: PromotionRules, wish: PromotionOptions
) -> Promoted:
    """`target`'s text with the pool-shaped part of `source`. Raises GpupoolError where it can't take that."""
    merge = _Merge(source, target, rules, wish)
    for section in SECTIONS:
        if section in NAMED:
            merge.items(section)
        elif merge.wanted(section):
            merge.fields((section,), (section,), (section,), merge.rules)
    return merge.finish()


@dataclass
class _Merge:
    source: EnvironmentFile
    target: EnvironmentFile
    rules: PromotionRules
    wish: PromotionOptions
    new: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    followed: list[str] = field(default_factory=list)
    """What did not stay this time, because the GPU changed."""

    def __post_init__(self) -> None:
        self.theirs, self.ours = Text(self.source.text), Text(self.target.text)
        self._values: tuple[str, Any] = (self.target.text, self.target.data)
        self.from_shape, self.to_shape = (
            shape_of(self.source.environment),
            shape_of(self.target.environment),
        )

    def wanted(self, section: str, name: str = "") -> bool:
        """Whether the section, or in `pools` the pool, was asked for. A priority may have a pool's name."""
        only = self.wish.only
        return not only or section in only or (section == "pools" and name in only)

    def items(self, section: str) -> None:
        """Pools, or priorities: those of both sides, those to add, those to delete."""
        source, target = named(self.source, section), named(self.target, section)
        for name in source:
            if not self.wanted(section, name) or (name not in target and self.stays(section, name)):
                continue
            if name not in target:
                self.add(section, name)
            else:
                at, rules = self.index(section, name), self.rules
                if section == "pools":
                    rules = self.with_the_gpu(name)
                theirs = (section, list(source).index(name))
                self.fields((section, name), theirs, (section, at), rules)
        for name in target:
            if name not in source and self.wanted(section, name) and not self.stays(section, name):
                if self.wish.delete:
                    self.ours.delete_item((section,), self.index(section, name))
                else:
                    self.left.append(f"{section}.{name}")

    def stays(self, section: str, name: str) -> bool:
        return self.rules.stays(f"{section}.{name}")

    def index(self, section: str, name: str) -> int:
        """Where the target now has the item."""
        return self.names(section).index(name)

    def names(self, section: str) -> list[str]:
        """Names of the items of the text as it now is."""
        node = self.ours.node((section,))
        found = []
        for item in node.children if node else ():
            pair = item.pair("name")
            found.append(pair.value.text if pair else "")
        return found

    def with_the_gpu(self, name: str) -> PromotionRules:
        """The rules for a pool: the machines come along with another GPU."""
        paths = [f"pools.{name}.{inner}" for inner in _WITH_THE_GPU]
        gpus = {shape["pools"][name]["gpu"] for shape in (self.from_shape, self.to_shape)}
        if len(gpus) < 2 or self.rules.stays(f"pools.{name}.gpu"):
            return self.rules
        self.followed += [path for path in paths if not self.rules.names(path)]
        return self.rules.following(*paths)

    def add(self, section: str, name: str) -> None:
        """An item that is new: a pool behind the one it follows there, a priority where its value puts it."""
        source, there = list(named(self.source, section)), self.names(section)
        if section == "pools":
            before = [one for one in source[: source.index(name)] if one in there]
            at = there.index(before[-1]) + 1 if before else len(there)
        else:
            values = {one: item["value"] for one, item in named(self.target, section).items()}
            values |= {one: item["value"] for one, item in named(self.source, section).items()}
            at = sum(values.get(one, 0) > values[name] for one in there)
        every, node = self.theirs.node((section,)), self.theirs.node((section, source.index(name)))
        piece = flow_text(named(self.source, section)[name])
        lines = f"- {piece}"
        if every and node and not every.flow and not node.anchored:
            lines = self.theirs.lines_of(node)
        sizes: dict[str, int] = {}
        if section == "pools":
            nodes = named(self.source, section)[name].get("nodes", {})
            sizes = {key: size for key, size in self.wish.sizes.items() if key in nodes}
            sized = " and ".join(f"nodes.{key} {size}" for key, size in sizes.items()) or "its sizes"
            lines = f"# New from {self.source.name}, with {sized}: check that they fit here.\n{lines}"
            self.new.append(name)
        self.ours.insert_item((section,), at, lines, piece)
        for key, size in sizes.items():
            self.ours.set(("pools", at, "nodes", key), str(size))

    def fields(self, loc: Loc, theirs: tuple[Any, ...], ours: tuple[Any, ...], rules: PromotionRules) -> None:
        """Carry over what is at `loc` (of the shape), which the two texts have at `theirs` and `ours`."""
        source, target = value_at(self.source.data, theirs), value_at(self.ours_now(), ours)
        if not self.differs(loc, rules):
            return
        if isinstance(target, dict) and (isinstance(source, dict) or self.any_stays(loc, rules)):
            source = source if isinstance(source, dict) else {}
        elif source is None and target is not None:
            self.ours.delete(ours)
            return
        elif not (isinstance(source, dict) and self.any_stays(loc, rules)):
            self.set(theirs, ours, source)
            return
        for key in [*source, *(key for key in target or () if key not in source)]:
            if key != "name" or len(loc) != 2 or loc[0] not in NAMED:
                self.fields((*loc, key), (*theirs, key), (*ours, key), rules)

    def set(self, theirs: tuple[Any, ...], ours: tuple[Any, ...], value: Any) -> None:
        node = self.theirs.node(theirs)
        piece = self.theirs.piece(node) if node and node.flow and not node.anchored else ""
        text = flow_text(value) if not piece or "\n" in piece or "\r" in piece else piece
        keys = list(value_at(self.source.data, theirs[:-1]) or ())
        before = set(keys[: keys.index(theirs[-1])]) | {"apiVersion", "kind", "metadata", "name"}
        top = len(ours) == 1
        self.ours.set(ours, text, lambda key: top or key in before)

    def differs(self, loc: Loc, rules: PromotionRules) -> bool:
        sides = [fields(_in_shape(shape, loc), loc, rules) for shape in (self.from_shape, self.to_shape)]
        return sides[0] != sides[1]

    def any_stays(self, loc: Loc, rules: PromotionRules) -> bool:
        """Whether a field at `loc` or below it, on either side, stays."""
        shapes_within = [
            inner
            for shape in (self.from_shape, self.to_shape)
            for inner, _ in leaves(_in_shape(shape, loc), loc)
        ]
        return any(rules.stays(path_of(inner)) for inner in shapes_within)

    def ours_now(self) -> Any:
        """The target's values as they are now written."""
        if self._values[0] != self.ours.text:
            self._values = (
                self.ours.text,
                parse_source(self.target.loaded.source.file, self.ours.text.encode()).data,
            )
        return self._values[1]

    def finish(self) -> Promoted:
        """The result, once it has been read again and compared with what was requested."""
        rules = self.rules.following(*self.followed)
        before = differences(*(parts(shape, rules) for shape in (self.from_shape, self.to_shape)))
        raw = self.ours.text.encode()
        try:
            result = read_environment_file(self.target.loaded.source.file, raw)
        except SpecError as error:
            raise GpupoolError(f"{self.target.name}: {_CAUSE}:\n{error}") from error
        after_shape = shape_of(result.environment)
        after = differences(parts(self.from_shape, rules), parts(after_shape, rules))
        wrong = [difference for difference in after if self.meant(difference)]
        wrong += changed_that_stay(self.to_shape, after_shape, rules)
        if wrong:
            listed = "\n".join(f"  {one}" for one in wrong)
            raise GpupoolError(f"{self.target.name}: {_CAUSE}:\n{listed}")
        changes = tuple(one for one in before if one not in after)
        return Promoted(self.ours.text, changes, tuple(self.new), tuple(self.left))

    def meant(self, difference: Difference) -> bool:
        """Whether it was asked to go away."""
        section, *rest = difference.path.split(".")
        name = rest[0] if section in NAMED else section
        return self.wanted(section, name) and f"{section}.{name}" not in self.left


_CAUSE = "can't change the text, probably because an anchor shares values; write the values out, then promote"


def _in_shape(shape: Shape, loc: Loc) -> Any:
    value = value_at(shape, loc)
    return value if value is not None else {}
