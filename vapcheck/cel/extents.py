"""Where the parts of an expression are in its text, and how deep they are nested.

Reads the grammar of the CEL specification with cel-go's limit of depth. It must not report errors: a text
that is not CEL has no extents, and the checker reports what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vapcheck.cel.tokens import Token, tokens

_MAX_LEVELS = 250
"""Levels that cel-go's parser accepts (parser/options.go: maxRecursionDepth)."""
_OPERATORS = (("==", "!=", "<", "<=", ">", ">=", "in"), ("+", "-"), ("*", "/", "%"))
"""From the loosest to the tightest, below `||` and `&&`."""
_LONGEST_NAME = 3
"""A chain with at most so many dots may be one declared name, the beginning of which is no expression:
google.protobuf.Timestamp, authorizer.requestResource."""
# Macros, by the number of arguments that are not expressions but names of variables.
_ONE_VARIABLE = frozenset(("all", "exists", "exists_one", "filter", "map", "sortBy"))
_TWO_VARIABLES = frozenset(
    ("all", "exists", "existsOne", "exists_one", "transformList", "transformMap", "transformMapEntry")
)
_OPTIONAL = frozenset(("optMap", "optFlatMap"))
"""Macros with one variable, on an optional."""


class NotCelError(Exception):
    """The text is not an expression."""


class TooDeepError(Exception):
    """The expression has more levels than the API server's parser accepts."""


@dataclass(slots=True)
class Macro:
    """A call of a macro that declares variables for its arguments."""

    receiver: Extent
    variables: tuple[str, ...]
    optional: bool
    """Whether the receiver is an optional; its value is the variable."""


@dataclass(slots=True, eq=False)
class Extent:
    """One part of an expression, with the parts inside it from left to right."""

    start: int
    end: int
    parts: list[Extent] = field(default_factory=list)
    sign: Token | None = None
    """The unary operator, or the first of the binary ones between the parts; None for `?:`."""
    macro: Macro | None = None
    """The macro of which this is an argument, if the macro declares variables."""
    whole: bool = True
    """Whether the part is an expression by itself, that could be replaced by a variable of its type. Names,
    chains that may be one name and the arguments of has() are not."""
    copied: bool = False
    """Whether a macro uses the part more than once, as optMap() its receiver."""
    two_variables: bool = False
    """Whether the part is a macro with two variables."""
    levels: int = 0
    """How many levels of cel-go's parser the part takes, brackets not counted."""


def extents(text: str) -> Extent:
    """The whole expression. Raises NotCelError, or TooDeepError."""
    return _Reader(text).read()


class _Reader:
    """A recursive descent parser."""

    def __init__(self, text: str) -> None:
        self._tokens: list[Token] = []
        for token in tokens(text):
            if token.kind == "other":
                raise NotCelError
            if token.kind not in ("space", "comment"):
                self._tokens.append(token._replace(kind="sign") if token.text == "in" else token)
        self._tokens.append(Token("end", "", len(text), len(text)))
        self._at = 0
        self._names = {token.start: token.text for token in self._tokens if token.kind == "name"}
        self._open = 0
        """Calls of `_expression` that have not returned."""

    def read(self) -> Extent:
        extent = self._expression()
        if self._next.kind != "end":
            raise NotCelError
        return extent

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _is(self, *signs: str) -> bool:
        token = self._next
        return token.kind == "sign" and token.text in signs

    def _take(self, sign: str = "") -> Token:
        """Consume the next token, which must be `sign` if that is given. Raises NotCelError."""
        token = self._next
        if token.kind == "end" or (sign and not (token.kind == "sign" and token.text == sign)):
            raise NotCelError
        self._at += 1
        return token

    def _name(self) -> str:
        if self._next.kind != "name":
            raise NotCelError
        return self._take().text

    def _made(self, start: int, parts: list[Extent], *, level: int = 0, sign: Token | None = None) -> Extent:
        """The extent from `start` to the last token consumed; `level` is 1 if cel-go counts it as a level."""
        levels = level + max((part.levels for part in parts), default=0)
        if levels > _MAX_LEVELS:
            raise TooDeepError
        return Extent(start, self._tokens[self._at - 1].end, parts, sign, levels=levels)

    def _expression(self) -> Extent:
        self._open += 1
        if self._open > _MAX_LEVELS:
            raise TooDeepError
        extent = self._alternatives()
        if self._is("?"):
            self._take()
            then = self._alternatives()
            self._take(":")
            extent = self._made(extent.start, [extent, then, self._expression()], level=1)
        self._open -= 1
        return extent

    def _alternatives(self) -> Extent:
        return self._joined("||", lambda: self._joined("&&", lambda: self._operation(0)))

    def _joined(self, sign: str, operand: Callable[[], Extent]) -> Extent:
        """Operands of `&&` or `||`. They take no level, since the grammar has a chain of them as one list."""
        parts, first = [operand()], self._next
        while self._is(sign):
            self._take()
            parts.append(operand())
        if len(parts) == 1:
            return parts[0]
        return self._made(parts[0].start, parts, sign=first)

    def _operation(self, tightness: int) -> Extent:
        """Operands of the operators in `_OPERATORS[tightness]`, or of tighter ones."""
        if tightness == len(_OPERATORS):
            return self._unary()
        extent = self._operation(tightness + 1)
        while self._is(*_OPERATORS[tightness]):
            sign = self._take()
            extent = self._made(extent.start, [extent, self._operation(tightness + 1)], level=1, sign=sign)
        return extent

    def _unary(self) -> Extent:
        signs = []
        while self._is("!", "-"):
            signs.append(self._take())
        extent = self._member()
        for sign in reversed(signs):
            extent = self._made(sign.start, [extent], sign=sign)
        return extent

    def _member(self) -> Extent:
        extent = self._primary()
        while self._is(".", "[", "{"):
            if self._is("{"):
                extent = self._made(extent.start, [extent, *self._items("{", "}")], level=1)
                continue
            if self._take().text == "[":
                if self._is("?"):
                    self._take()
                index = self._expression()
                self._take("]")
                extent = self._made(extent.start, [extent, index], level=1)
                continue
            if self._is("?"):
                self._take()
                self._name()
                extent = self._made(extent.start, [extent], level=1)
                continue
            name = self._name()
            if self._is("("):
                extent = self._call(name, extent)
            else:
                extent = self._made(extent.start, [extent], level=1)
                extent.whole = extent.parts[0].whole or extent.levels > _LONGEST_NAME
        return extent

    def _call(self, name: str, receiver: Extent) -> Extent:
        arguments = self._items("(", ")")
        words = [self._word(argument) for argument in arguments]
        variables: tuple[str, ...] = ()
        if name in _TWO_VARIABLES and len(words) > 2 and words[0] and words[1]:
            variables = (words[0], words[1])
        elif name in _ONE_VARIABLE | _OPTIONAL and len(words) > 1 and words[0]:
            variables = (words[0],)
        if variables:
            macro = Macro(receiver, variables, name in _OPTIONAL)
            receiver.copied = name in _OPTIONAL
            for argument in arguments[len(variables) :]:
                argument.macro = macro
        extent = self._made(receiver.start, [receiver, *arguments], level=1)
        extent.two_variables = len(variables) == 2
        return extent

    def _word(self, extent: Extent) -> str:
        """The name that the argument consists of; empty if it is no plain name."""
        text = self._names.get(extent.start, "")
        return text if extent.end - extent.start == len(text) else ""

    def _primary(self) -> Extent:
        kind, start = self._next.kind, self._next.start
        if kind in ("text", "number"):
            self._take()
            return self._made(start, [])
        if self._is("("):
            return self._made(start, self._items("(", ")"))
        if self._is("["):
            return self._made(start, self._items("[", "]"))
        if self._is("{"):
            return self._made(start, self._items("{", "}"))
        if self._is("."):
            self._take()
        name = self._name()
        if not self._is("("):
            extent = self._made(start, [])
            extent.whole = False
            return extent
        arguments = self._items("(", ")")
        if name == "has":
            for argument in arguments:
                argument.whole = False
        return self._made(start, arguments)

    def _items(self, opening: str, closing: str) -> list[Extent]:
        """Arguments, items or entries, each of which may start with `?` where it is optional."""
        self._take(opening)
        found: list[Extent] = []
        while not self._is(closing):
            if self._is("?"):
                self._take()
            found.append(self._expression())
            if not self._is(closing):
                if not self._is(",", ":"):
                    raise NotCelError
                self._take()
        self._take(closing)
        return found
