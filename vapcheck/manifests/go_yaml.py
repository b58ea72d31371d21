"""YAML exactly as kubectl reads it: its nodes, and what Go's YAML 1.1 library makes of them.

This is the slow reader that handles every text; `vapcheck.manifests.plain_yaml` reads what is plain. It
reads the first document of a text, as kubectl does after splitting, and knows nothing of Kubernetes.
One difference is known: Go's scanner takes `{a:, b:}` for the keys `a:` and `b:`, libyaml's refuses it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from vapcheck.manifests.go_scalars import MERGE, ScalarError, as_sent, key_text, resolve
from vapcheck.manifests.yaml_nodes import MAX_DEPTH, Fault, YamlNode, read_nodes

_ESCAPE = re.compile(r"\\.", re.DOTALL)
_LOW, _HIGH = 400_000, 4_000_000
"""Go's library allows 99 % of values to come from aliases below, 10 % above, and scales between."""


class YamlError(Exception):
    """kubectl can't read the text. `line` and `column` count from 1 within it; `bare` is the message without
    anything that is written there."""

    def __init__(self, message: str, line: int, column: int, bare: str = "") -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column
        self.bare = bare or message


@dataclass(slots=True)
class Reading:
    """What came of one text."""

    value: Any
    root: YamlNode | None
    duplicates: list[tuple[str, int, int]]
    """Keys that appear twice in one mapping (the last one counts), with their place."""
    rest: int
    """The line of what follows the document after `...` and is never read; 0 for nothing."""


def read(text: str) -> Reading:
    """The first document in `text`. Raises YamlError where kubectl fails, and for absurd nesting."""
    root, rest = compose(text)
    decoder = _Decoder()
    value = None if root is None else decoder.value(root, 0)
    return Reading(value, root, decoder.duplicates, rest)


def compose(text: str) -> tuple[YamlNode | None, int]:
    """The nodes of the first document (None for an empty one), and the line of what follows it, or 0."""
    document = read_nodes(text)
    if document.root is not None and "\\/" in text:
        _refuse_slash(text, document.root)
    fault, following = document.fault, document.following
    if fault is not None and (not document.whole or fault.kind == "character"):
        message, bare = _words(fault)
        raise YamlError(message, fault.line, fault.column, bare)
    # kubectl reads one document of a text; what comes after it is not even parsed.
    rest = fault or following
    return document.root, rest.line if rest else 0


def _words(fault: Fault) -> tuple[str, str]:
    """What is wrong, and the same without anything that is written there."""
    if fault.kind == "anchor":
        return f"unknown anchor '{fault.said}' referenced", "unknown anchor referenced"
    if fault.kind == "depth":
        return f"nested deeper than {MAX_DEPTH} levels", ""
    if fault.kind == "character":
        return f"character {fault.said} is not allowed", ""
    return ": ".join(part for part in (fault.context, fault.said) if part) or "malformed", ""


def _refuse_slash(text: str, node: YamlNode) -> None:
    """Go's scanner is older than libyaml's and doesn't know the escape `\\/`."""
    if node.style == '"':
        raw = text[node.start : node.end]
        if any(escape == "\\/" for escape in _ESCAPE.findall(raw)):
            raise YamlError("found unknown escape character '/'", node.line, node.column)
    for child in node.children:
        _refuse_slash(text, child)


class _Decoder:
    """Nodes to JSON values."""

    def __init__(self) -> None:
        self.duplicates: list[tuple[str, int, int]] = []
        self.steps = self.from_aliases = self.inside_alias = 0
        self.open: set[int] = set()

    def value(self, node: YamlNode, depth: int) -> Any:
        self.count(node, depth)
        if node.kind == "scalar":
            return self.sent(node)
        if node.kind == "list":
            return [self.value(child, depth + 1) for child in node.children]
        if node.kind == "map":
            found: dict[str, Any] = {}
            self.fill(found, node, depth)
            return found
        return self.through(node, lambda target: self.value(target, depth + 1))

    def count(self, node: YamlNode, depth: int) -> None:
        """Refuse what Go's library takes for an attack by aliases, and what is too deep."""
        self.steps += 1
        if self.inside_alias:
            self.from_aliases += 1
        if depth > MAX_DEPTH:
            raise YamlError(f"nested deeper than {MAX_DEPTH} levels", node.line, node.column)
        if self.from_aliases > 100 and self.steps > 1000:
            share = min(max((self.steps - _LOW) / (_HIGH - _LOW), 0.0), 1.0)
            if self.from_aliases / self.steps > 0.99 - 0.89 * share:
                raise YamlError("document contains excessive aliasing", node.line, node.column)

    def through(self, node: YamlNode, then: Any) -> Any:
        """What `then` makes of the target of an alias."""
        if id(node) in self.open:
            message, bare = f"anchor '{node.text}' value contains itself", "an anchor's value contains itself"
            raise YamlError(message, node.line, node.column, bare)
        self.open.add(id(node))
        self.inside_alias += 1
        value = then(node.target)
        self.inside_alias -= 1
        self.open.discard(id(node))
        return value

    def sent(self, node: YamlNode) -> Any:
        return self.guarded(node, as_sent, self.scalar(node))

    def scalar(self, node: YamlNode) -> Any:
        if not node.tag and not node.plain:
            return node.text
        return self.guarded(node, lambda text: resolve(node.tag, text), node.text)

    def guarded(self, node: YamlNode, function: Any, argument: Any) -> Any:
        try:
            return function(argument)
        except ScalarError as error:
            raise YamlError(str(error), node.line, node.column, error.bare) from error

    def fill(self, found: dict[str, Any], node: YamlNode, depth: int) -> None:
        """Put the pairs of the mapping `node` into `found`; a merge overwrites what stands before it."""
        own: set[str] = set()
        pairs = iter(node.children)
        for key, value in zip(pairs, pairs, strict=True):
            if key.kind == "scalar" and key.text == "<<" and (key.plain or key.tag == MERGE):
                self.merge(found, value, depth)
                continue
            name = self.key(key, depth)
            if name in own:
                self.duplicates.append((name, key.line, key.column))
            own.add(name)
            found[name] = self.value(value, depth + 1)

    def key(self, node: YamlNode, depth: int) -> Any:
        """The key as text."""
        self.count(node, depth)
        if node.kind == "alias":
            return self.through(node, lambda target: self.key(target, depth + 1))
        if node.kind != "scalar":
            raise YamlError("invalid map key: a mapping or list can't be a key", node.line, node.column)
        return self.guarded(node, key_text, self.scalar(node))

    def merge(self, found: dict[str, Any], node: YamlNode, depth: int) -> None:
        """Merge a mapping, an alias of one, or a list of such (of which the first ones count most)."""
        sources = node.children[::-1] if node.kind == "list" else [node]
        for source in sources:
            if (source.target or source).kind != "map":
                message = "map merge requires map or sequence of maps as the value"
                raise YamlError(message, source.line, source.column)
            self.count(source, depth)
            if source.kind == "alias":
                self.through(source, lambda target: self.merged(found, target, depth + 1))
            else:
                self.fill(found, source, depth + 1)

    def merged(self, found: dict[str, Any], target: YamlNode, depth: int) -> None:
        self.count(target, depth)
        self.fill(found, target, depth)
