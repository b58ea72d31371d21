"""Small mistakes that one can make in a CEL expression, as edits of its text.

Reads just enough of the grammar (CEL specification, "Grammar") to know operators and operands by their place:
strings, comments and brackets are skipped whole. It must not evaluate or judge. What is no CEL yields no
edits: saying so is the compiler's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<string>[rRbB]{0,2}(?:'{3}|"{3}|'|"))
    |(?P<number>(?:0x[0-9a-fA-F]+|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)u?U?)
    |(?P<name>[_a-zA-Z][_a-zA-Z0-9]*|`[^`]*`)
    |(?P<sign>\|\||&&|==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE,
)
_BOUNDARIES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_EQUALITIES = ("==", "!=", "in")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Edit:
    """One changed expression."""

    text: str
    """The expression after the edit."""
    what: str
    """What was changed, in words."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


class _NotCelError(Exception):
    """The text can't be read as an expression."""


def edits(expression: str) -> list[Edit]:
    """Every operand of `&&` and `||` dropped, every `!` removed, every comparison moved or made true."""
    try:
        tokens = list(_tokens(expression))
        reader = _Reader(expression, tokens)
        reader.read()
    except (_NotCelError, RecursionError):
        return []
    return list({edit.text: edit for edit in reader.found}.values())


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _NotCelError
        kind, end = str(match.lastgroup), match.end()
        if kind == "string":
            end = _string_end(text, match)
        if kind != "space":
            yield _Token("sign" if text[at:end] == "in" else kind, text[at:end], at, end)
        at = end
    yield _Token("end", "", at, at)


def _string_end(text: str, opened: re.Match[str]) -> int:
    start = opened.group()
    quote = start.lstrip("rRbB")
    raw = "r" in start[: -len(quote)].lower()
    at = opened.end()
    while not text.startswith(quote, at):
        if at >= len(text):
            raise _NotCelError
        at += 2 if text[at] == "\\" and not raw else 1
    return at + len(quote)


class _Reader:
    """Recursive descent over the tokens, noting edits on the way. Every method moves past what it reads."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self.found: list[Edit] = []
        self._text, self._tokens, self._at = text, tokens, 0

    def read(self) -> None:
        self._choice()
        if self._next.kind != "end":
            raise _NotCelError

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _is(self, *signs: str) -> bool:
        return self._next.kind == "sign" and self._next.text in signs

    def _take(self, sign: str = "") -> _Token:
        token = self._next
        if token.kind == "end" or (sign and not (token.kind == "sign" and token.text == sign)):
            raise _NotCelError
        self._at += 1
        return token

    def _edit(self, start: int, end: int, replacement: str, what: str) -> None:
        self.found.append(Edit(self._text[:start] + replacement + self._text[end:], what))

    def _shown(self, start: int, end: int) -> str:
        return " ".join(self._text[start:end].split())

    def _choice(self) -> None:
        """`a ? b : c`, or what has no question mark."""
        self._operands("||", lambda: self._operands("&&", self._comparison))
        if self._is("?"):
            self._take()
            self._operands("||", lambda: self._operands("&&", self._comparison))
            self._take(":")
            self._choice()

    def _operands(self, sign: str, operand: Callable[[], None]) -> None:
        spans = [self._span(operand)]
        while self._is(sign):
            self._take()
            spans.append(self._span(operand))
        if len(spans) < 2:
            return
        for index, (start, end) in enumerate(spans):
            what = f"dropped {sign} operand: {self._shown(start, end)}"
            if index:
                self._edit(spans[index - 1][1], end, "", what)
            else:
                self._edit(start, spans[1][0], "", what)

    def _span(self, read: Callable[[], None]) -> tuple[int, int]:
        start = self._next.start
        read()
        return start, self._tokens[self._at - 1].end

    def _comparison(self) -> None:
        start = self._next.start
        self._sum()
        while self._is(*_BOUNDARIES, *_EQUALITIES):
            sign = self._take()
            self._sum()
            end = self._tokens[self._at - 1].end
            shown = self._shown(start, end)
            if sign.text in _BOUNDARIES:
                other = _BOUNDARIES[sign.text]
                self._edit(sign.start, sign.end, other, f"{sign.text} became {other}: {shown}")
            else:
                self._edit(start, end, "true", f"made true: {shown}")

    def _sum(self) -> None:
        self._unary()
        while self._is("+", "-", "*", "/", "%"):
            self._take()
            self._unary()

    def _unary(self) -> None:
        while self._is("!", "-"):
            sign = self._take()
            if sign.text == "!":
                end = self._next.start
                self._edit(sign.start, end, "", f"removed ! at character {sign.start + 1}")
        self._member()

    def _member(self) -> None:
        token = self._take()
        if token.kind == "sign":
            if token.text == ".":
                self._name()
            elif token.text in _CLOSING:
                self._until(_CLOSING[token.text])
            else:
                raise _NotCelError
        while self._is(".", "(", "[", "{"):
            sign = self._take().text
            if sign != ".":
                self._until(_CLOSING[sign])
                continue
            if self._is("?"):
                self._take()
            self._name()

    def _name(self) -> None:
        if self._take().kind != "name":
            raise _NotCelError

    def _until(self, closing: str) -> None:
        """Arguments, items or entries, each of which may start with `?` where it is optional."""
        while not self._is(closing):
            if self._is("?"):
                self._take()
            self._choice()
            if not self._is(closing):
                if not self._is(",", ":"):
                    raise _NotCelError
                self._take()
        self._take()
