"""Splits the text of a file into documents as kubectl does, and reads each one.

kubectl (k8s.io/apimachinery 0.36, `YAMLOrJSONDecoder`) splits YAML at lines that begin with `---` before it
parses anything, and reads a text that begins with `{` as JSON objects one after the other. Each document is
read separately here, so that one broken document doesn't hide the others, which kubectl wouldn't read.
Problems of a text that may hold a Secret are reported without quoting the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vapcheck.manifests import go_yaml, plain_yaml
from vapcheck.manifests.go_scalars import MAX_INT, MIN_INT, ScalarError, as_sent
from vapcheck.manifests.go_yaml import YamlError
from vapcheck.manifests.problem import Problem
from vapcheck.manifests.secret_kinds import may_hold_secret
from vapcheck.manifests.yaml_nodes import MAX_DEPTH

_SEPARATOR = re.compile(r"^---(.*)\n?", re.MULTILINE)
_CONTENT = re.compile(r"^(?!---)[ \t]*[^\s#]", re.MULTILINE)
_JSON_SPACE = re.compile(r"[ \t\r\n]*")
KEEP_ONE = "keep one; kubectl uses the last"
"""What to do about a key that appears twice, which kubectl takes all the same."""
MAX_CHARACTERS = 16 << 20
"""Of one document. The server refuses requests over 3 MiB, and a List may hold many objects."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One document: its value (NotImplemented where it can't be read) or what is wrong with it."""

    value: Any
    line: int
    """Of its first content, from 1."""
    text: str
    first_line: int
    """The line of the file that `text` begins in."""
    problems: tuple[Problem, ...] = ()
    """Without the file's name."""


def pieces(text: str) -> Iterator[Piece]:
    """The documents of a file's text, those without content left out. Line ends are those of the file."""
    if text.lstrip().startswith("{"):
        yield from _json_pieces(text)
    else:
        yield from _yaml_pieces(text.replace("\r\n", "\n") if "\r\n" in text else text, 1, text)


def _yaml_pieces(text: str, line: int, whole: str) -> Iterator[Piece]:
    """The documents of `text`, which begins in a line of the file; `whole` is the text of the file."""
    begin = 0
    for match in _SEPARATOR.finditer(text):
        follows = match[1].strip()
        if follows and not follows.startswith("#"):
            here = line + text.count("\n", begin, match.start())
            # A key that is pasted without its indentation begins like this (-----BEGIN ...).
            shown = "anything" if may_hold_secret(whole) else repr(follows[:40])
            message = f"a line with --- can't go on with {shown}"
            remediation = "move the text to the next line; kubectl can't read this file"
            yield Piece(NotImplemented, here, "", here, (Problem("", here, 4, message, remediation),))
        elif match.start() == begin:
            continue  # nothing before it: it belongs to what follows
        yield from _yaml_piece(text[begin : match.start()], line, whole)
        line += text.count("\n", begin, match.end())
        begin = match.end()
    yield from _yaml_piece(text[begin:], line, whole)


def _yaml_piece(text: str, line: int, whole: str) -> Iterator[Piece]:
    """The document in `text`, or nothing where there are only comments. `whole` is the text of the file."""
    content = _CONTENT.search(text)
    if content is None:
        return
    first = line + text.count("\n", 0, content.end())
    if not text.endswith("\n"):
        text += "\n"
    if len(text) > MAX_CHARACTERS:
        problem = Problem(
            "", first, 1, f"a document of {len(text):,} characters", "split it into several objects"
        )
        yield Piece(NotImplemented, first, text, line, (problem,))
        return
    value = plain_yaml.read(text[text.index("\n") + 1 :] if text.startswith("---") else text)
    problems: list[Problem] = []
    if value is NotImplemented:
        value = _exactly(text, line, problems, whole)
    if value is not None:
        yield Piece(value, first, text, line, tuple(problems))


def _exactly(text: str, line: int, problems: list[Problem], whole: str) -> Any:
    try:
        reading = go_yaml.read(text)
    except YamlError as error:
        problems.append(_syntax(text, error, line, whole))
        return NotImplemented
    for key, row, column in reading.duplicates:
        message = f"the key {key!r} appears twice in one object"
        problems.append(Problem("", line + row - 1, column, message, KEEP_ONE))
    if reading.rest:
        message = "text after the end of the document (...) is never read"
        problems.append(
            Problem("", line + reading.rest - 1, 1, message, "start it with --- on a separate line")
        )
    return reading.value


def _syntax(text: str, error: YamlError, line: int, whole: str) -> Problem:
    row = line + error.line - 1
    said = error.bare if may_hold_secret(whole) else error.message
    if "{{" in text:
        return Problem(
            "",
            row,
            error.column,
            f"this is a template ({{{{ ... }}}}), which is not YAML until it is rendered: {said}",
            "render it first, with `helm template` for a chart, and check the result",
        )
    return Problem("", row, error.column, f"kubectl can't read this YAML: {said}", "correct the YAML")


def _json_pieces(text: str) -> Iterator[Piece]:
    """JSON objects one after the other; like kubectl, on to YAML after one of them and a `---`."""
    position, line, count = _space(text, 0), 1, 0
    counted = 0
    while position < len(text):
        line, counted = line + text.count("\n", counted, position), position
        try:
            value, end = _DECODER.raw_decode(text, position)
            value = _sent(value, 0)
        except (ValueError, ScalarError, RecursionError) as error:
            if count > 1 or isinstance(error, ScalarError | RecursionError):
                yield Piece(NotImplemented, line, text, 1, (_json_problem(text, error, line),))
                return
            rest = text[position:]
            yield from _rest_as_yaml(rest, line, error, text)
            return
        count += 1
        if value is not None:
            yield Piece(value, line, text[position:end], line)
        position = _space(text, end)


def _rest_as_yaml(rest: str, line: int, error: Exception, whole: str) -> Iterator[Piece]:
    """What JSON can't read may be YAML in flow style; where it isn't either, the JSON error says more."""
    found = list(_yaml_pieces(rest.replace("\r\n", "\n"), line, whole))
    if rest.startswith("{") and len(found) == 1 and found[0].value is NotImplemented and "{{" not in rest:
        yield Piece(NotImplemented, line, rest, line, (_json_problem(rest, error, line),))
    else:
        yield from found


def _json_problem(text: str, error: Exception, line: int) -> Problem:
    message, column = str(error) or "malformed", 1
    if isinstance(error, json.JSONDecodeError):
        message, column = error.msg, error.colno
        line = line + error.lineno - 1 if text is not error.doc else error.lineno
    elif isinstance(error, RecursionError):
        message = f"nested deeper than {MAX_DEPTH} levels"
    return Problem("", line, column, f"kubectl can't read this JSON: {message}", "correct the JSON")


def _space(text: str, position: int) -> int:
    match = _JSON_SPACE.match(text, position)
    return match.end() if match else position


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _integer(text: str) -> int | float:
    if len(text) < 19 or (len(text) < 21 and MIN_INT <= int(text) <= MAX_INT):
        return int(text)
    return float(text)


_DECODER = json.JSONDecoder(parse_int=_integer, parse_constant=_constant)


def _sent(value: Any, depth: int) -> Any:
    """JSON as kubectl sends it on: whole numbers without a point, no half surrogates."""
    kind = value.__class__
    if kind is str:
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if kind is float:
        return as_sent(value)
    if depth > MAX_DEPTH:
        raise RecursionError
    if kind is dict:
        return {_sent(key, depth): _sent(item, depth + 1) for key, item in value.items()}
    if kind is list:
        return [_sent(item, depth + 1) for item in value]
    return value


_SURROGATE = re.compile("[\ud800-\udfff]")
