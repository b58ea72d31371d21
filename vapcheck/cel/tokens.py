"""The tokens of a CEL expression (CEL specification, "Grammar"), and readers of a grammar token by token.

The one lexer, for code that inspects an expression's text beside the checker. In text that is not CEL, what
it does not recognise is a token of kind `other`, and the rest is still split into tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<comment>//[^\n]*)
    |(?P<text>[bB]?[rR](?:'{3}.*?'{3}|"{3}.*?"{3}|'[^'\n]*'|"[^"\n]*")
      |[bB]?(?:'{3}(?:\\.|[^\\])*?'{3}|"{3}(?:\\.|[^\\])*?"{3}|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
    |(?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)[uU]?)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<sign>\|\||&&|[=!<>]=|[-+*/%<>!?:.,()\[\]{}])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class NotCelError(Exception):
    """The text can't be read as an expression."""


class Token(NamedTuple):
    kind: str
    """space, comment, text, number, name, sign (`in` too where `Reader` reads) or other."""
    text: str
    start: int
    end: int


def tokens(text: str) -> Iterator[Token]:
    """Every token; together they are the text."""
    for match in _TOKEN.finditer(text):
        yield Token(str(match.lastgroup), match[0], match.start(), match.end())


def code_of(expression: str) -> str:
    """What of the text is code: the expression with `""` for each string and a space for each comment."""
    written = {"text": '""', "comment": " "}
    return "".join(written.get(token.kind, token.text) for token in tokens(expression))


class Reader:
    """A place between the words of an expression, at the first one to begin with."""

    def __init__(self, text: str) -> None:
        self._tokens: list[Token] = []
        for token in tokens(text):
            if token.kind == "other":
                raise NotCelError
            if token.kind not in ("space", "comment"):
                self._tokens.append(token._replace(kind="sign") if token.text == "in" else token)
        self._tokens.append(Token("end", "", len(text), len(text)))
        self._at = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._at]

    def _is(self, *signs: str) -> bool:
        token = self._next
        return token.kind == "sign" and token.text in signs

    def _take(self, sign: str = "") -> Token:
        """Go on, behind a given sign where one is given."""
        token = self._next
        if token.kind == "end" or (sign and not (token.kind == "sign" and token.text == sign)):
            raise NotCelError
        self._at += 1
        return token

    def _name(self) -> str:
        if self._next.kind != "name":
            raise NotCelError
        return self._take().text
