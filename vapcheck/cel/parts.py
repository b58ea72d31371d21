"""Checking an expression part by part, where the checker can't take it whole.

Two things it can't: its parser stops at a depth of 32, where the API server's takes 250 levels, and what
optMap() and optFlatMap() are called on loses the second variable of macros that have two. Such parts are
checked by themselves, each with the macros around it, and stand in the rest as names of their type; the trees
are put together again.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from vapcheck.cel import refusals
from vapcheck.cel.dispatch import split_type
from vapcheck.cel.errors import CompileError
from vapcheck.cel.extents import Extent, Macro, NotCelError, TooDeepError, extents
from vapcheck.cel.syntax import Call, Comprehension, Identifier, ListLiteral, MapLiteral, Node, Select, Tree

Check = Callable[[str, Mapping[str, str]], Tree]
"""Checks a text with more names of given types. Raises RuntimeError or ValueError in the checker's words."""

TOO_DEEP = "compilation failed: ERROR: <input>:-1:0: max recursion depth exceeded"
"""The API server's words."""
_STACK = 12_000
"""Python's frames that 250 levels take at most, on top of those of any caller."""
_MOST = 8
"""Levels of a part, brackets among them; a level may be three of the checker's 32."""
_BEYOND = re.compile(r"recursion limit exceeded|max recursion depth|undeclared reference to '\w+'")
_FIRST = re.compile(r"ERROR: <input>:(\d+):(-?\d+): (.*)")


@contextmanager
def deep_stack() -> Iterator[None]:
    """Room for going through a tree of many levels."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _STACK))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def roomy() -> bool:
    """Whether deep_stack() is in force."""
    return sys.getrecursionlimit() >= _STACK


def tree_of_parts(text: str, problem: str, check: Check) -> Tree | None:
    """The tree of an expression that the checker refused as a whole, with `problem`.

    None where taking it apart does not help. Raises CompileError.
    """
    if not _BEYOND.search(problem):
        return None
    with deep_stack():
        try:
            root = extents(text)
        except NotCelError:
            return None
        except TooDeepError:
            raise CompileError(TOO_DEEP) from None
        parts = _Parts(text, check)
        parts.cut(root)
        return parts.tree(root) if parts.names else None


@dataclass(slots=True)
class _Text:
    """A text put together from pieces of the expression and others."""

    whole: str = ""
    origins: list[tuple[int, int]] = field(default_factory=list)
    """Where pieces start here, and where in the expression."""

    def add(self, piece: str, origin: int) -> None:
        self.origins.append((len(self.whole), origin))
        self.whole += piece

    def origin(self, offset: int) -> int:
        start, origin = max(pair for pair in self.origins if pair[0] <= offset)
        return origin + offset - start


class _Parts:
    def __init__(self, text: str, check: Check) -> None:
        self._text, self._check = text, check
        self._prefix = "_p"
        while self._prefix in text:
            self._prefix += "_"
        self.names: dict[int, str] = {}
        """Of the parts that are cut out, by the identity of their extents."""
        self._macros: dict[int, tuple[Macro, ...]] = {}
        self._cuts: list[Extent] = []
        self._trees: dict[str, Tree] = {}
        self._types: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        """What stands for a part in the text; the checker takes no optional for a name's type."""
        self._highest = 0

    def cut(self, root: Extent) -> None:
        """Choose the parts to check by themselves, inner ones first."""
        self._measure(root, (), last=True)

    def _measure(self, extent: Extent, macros: tuple[Macro, ...], last: bool = False) -> tuple[int, bool]:
        """Levels that are left of it once its parts are cut, and whether a macro with two variables is."""
        if extent.macro is not None:
            macros = (*macros, extent.macro)
        measured = [self._measure(part, macros) for part in extent.parts]
        levels = len(measured).bit_length() + max((each for each, _ in measured), default=0)
        two = extent.two_variables or any(each for _, each in measured)
        if not last and extent.whole and (levels > _MOST or (extent.copied and two)):
            self.names[id(extent)] = f"{self._prefix}{len(self.names)}"
            self._macros[id(extent)] = macros
            self._cuts.append(extent)
            return 0, False
        return levels, two

    def tree(self, root: Extent) -> Tree:
        """The tree of the whole, each part checked after those inside it."""
        for extent in self._cuts:
            name = self.names[id(extent)]
            self._trees[name], signature = self._checked(extent, self._macros[id(extent)])
            kind, parameters = split_type(signature)
            self._texts[name] = f"optional.of({name})" if kind == "optional_type" else name
            self._types[name] = parameters[0] if kind == "optional_type" else signature
        tree, _ = self._checked(root, ())
        trees = [tree, *self._trees.values()]

        def positions() -> dict[int, int]:
            return {number: at for one in trees for number, at in one.positions().items()}

        types = {number: each for one in trees for number, each in one.types.items()}
        references = {number: each for one in trees for number, each in one.references.items()}
        return Tree(tree.root, types, references, positions, deep=True)

    def _checked(self, extent: Extent, macros: tuple[Macro, ...]) -> tuple[Tree, str]:
        """A part's tree, with the parts inside it in their places, and its type."""
        text = _Text()
        for macro in macros:
            self._write(macro.receiver, text)
            function = "optMap" if macro.optional else ("map", "transformList")[len(macro.variables) - 1]
            text.add(f".{function}({', '.join(macro.variables)}, ", macro.receiver.end)
        self._write(extent, text, inside=True)
        text.add(")" * len(macros), extent.end)
        used = {name: signature for name, signature in self._types.items() if name in text.whole}
        try:
            tree = self._check(text.whole, used)
        except (RuntimeError, ValueError) as error:
            raise self._refusal(str(error), text) from None
        tree = self._renumbered(tree, text)
        node = tree.root
        for macro in macros:
            node = _body(node, macro.optional)
        signature = tree.types.get(node.id, "dyn")
        for each in list(tree.walk(node)):
            self._put_back(each)
        tree.root = self._real(node)
        return tree, signature

    def _write(self, extent: Extent, text: _Text, inside: bool = False) -> None:
        """The part's text with names for the parts that are cut out; `inside`: not for itself."""
        name = None if inside else self.names.get(id(extent))
        if name is not None:
            text.add(self._texts[name], extent.start)
            return
        at = extent.start
        for part in extent.parts:
            text.add(self._text[at : part.start], at)
            self._write(part, text)
            at = part.end
        text.add(self._text[at : extent.end], at)

    def _refusal(self, said: str, text: _Text) -> Exception:
        """The checker's first objection, at its place in the whole expression."""
        problem = refusals.reworded(said, text.whole)
        match = _FIRST.search(problem.message)
        if match is None:
            return problem
        line, column = int(match[1]), int(match[2])
        lines = text.whole.splitlines(keepends=True)
        offset = sum(map(len, lines[: line - 1])) + max(0, column - 1)
        return refusals.refusal(match[3], self._text, text.origin(offset))

    def _renumbered(self, tree: Tree, text: _Text) -> Tree:
        """The tree with numbers that no other part has, and positions in the whole expression."""
        above = self._highest
        for node in tree.walk():
            node.id += above
        types = {number + above: each for number, each in tree.types.items()}
        references = {number + above: each for number, each in tree.references.items()}
        self._highest = max([above, *types, *references, *(node.id for node in tree.walk())])
        positions = tree.positions

        def places() -> dict[int, int]:
            return {number + above: text.origin(at) for number, at in positions().items()}

        return Tree(tree.root, types, references, places)

    def _put_back(self, node: Node) -> None:
        """The parts that were cut out in the places of their names, below one node."""
        if isinstance(node, Select):
            node.operand = self._real(node.operand)
        elif isinstance(node, Call):
            node.target = node.target and self._real(node.target)
            node.arguments = [self._real(each) for each in node.arguments]
        elif isinstance(node, ListLiteral):
            node.elements = [self._real(each) for each in node.elements]
        elif isinstance(node, MapLiteral):
            for entry in node.entries:
                entry.key = self._real(entry.key) if isinstance(entry.key, Node) else entry.key
                entry.value = self._real(entry.value)
        elif isinstance(node, Comprehension):
            node.range, node.initial = self._real(node.range), self._real(node.initial)
            node.step, node.result = self._real(node.step), self._real(node.result)

    def _real(self, node: Node) -> Node:
        named = node.arguments[0] if isinstance(node, Call) and node.function == "optional.of" else node
        if isinstance(named, Identifier) and named.name in self._trees:
            return self._trees[named.name].root
        return node


def _body(node: Node, optional: bool) -> Node:
    """What stands as the last argument of the macro that a node is: of map(), transformList() or optMap()."""
    if optional:
        assert isinstance(node, Call)
        some = node.arguments[1]
        assert isinstance(some, Call)
        fold = some.arguments[0]
        assert isinstance(fold, Comprehension)
        return fold.result
    assert isinstance(node, Comprehension)
    assert isinstance(node.step, Call)
    added = node.step.arguments[1]
    assert isinstance(added, ListLiteral)
    return added.elements[0]
