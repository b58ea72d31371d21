"""Texts arrive as they were given, by the rules of the kubelet's own code where it is on this machine."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpupool.environment.expansion import escaped, expanded
from tests import go
from tests.growth import LINEAR, growth

VALUES = {"A": "x", "HOME": "/scratch", "a b": "spaced", "": "empty", "N": "$(A)$$"}
texts = st.text(st.sampled_from("$()AN {}b\n'\"ü\U0001f600"), max_size=14) | st.text(max_size=20)


def as_in_go(text: str, values: dict[str, str]) -> str:
    """expansion.Expand, statement by statement."""
    data = text.encode()
    written, checkpoint, cursor = b"", 0, 0
    while cursor < len(data):
        if data[cursor : cursor + 1] == b"$" and cursor + 1 < len(data):
            written += data[checkpoint:cursor]
            rest = data[cursor + 1 :]
            if rest[:1] == b"$":
                read, advance = b"$", 1
            elif rest[:1] == b"(":
                end = rest.find(b")", 1)
                if end >= 0:
                    name = rest[1:end].decode()
                    read, advance = values.get(name, f"$({name})").encode(), end + 1
                else:
                    read, advance = b"$(", 1
            else:
                rune = rest.decode()[0].encode()
                read, advance = b"$" + rune, len(rune)
            written += read
            cursor += advance
            checkpoint = cursor + 1
        cursor += 1
    return (written + data[checkpoint:]).decode()


@given(texts)
@example("$")
@example("pa$$w0rd$(HOME)$")
@example("$($(A)")
@example("$$(A)$$$(N")
def test_an_escaped_text_arrives_as_it_was_given(text: str) -> None:
    assert as_in_go(escaped(text), VALUES) == text
    assert expanded(escaped(text), VALUES) == text


@given(texts)
@example("$(A)$(a b)$()$(B)$(N)$$(A)$A$")
def test_the_pod_runner_expands_as_a_kubelet_does(text: str) -> None:
    assert expanded(text, VALUES) == as_in_go(text, VALUES)


@pytest.mark.parametrize(
    "text", ["echo $HOME ${HOME} $1 $? $", "kubectl -o jsonpath={.a}", "awk '{print $1}'", "$(never closed"]
)
def test_what_kubernetes_leaves_alone_stays_legible(text: str) -> None:
    assert escaped(text) == text


def test_long_texts_take_no_square_of_their_length() -> None:
    assert growth(lambda size: escaped("$(" * size), 20_000) < LINEAR
    assert growth(lambda size: expanded("$($$" * size, {}), 20_000) < LINEAR


def test_kubernetes_own_code_agrees() -> None:
    every = ["".join(parts) for length in range(7) for parts in itertools.product("$()A", repeat=length)]
    some = [text for text in every if "$" in text]
    asked = [*some, *(escaped(text) for text in some)]
    answers = go.run(Path(__file__).with_name("expand.go"), [[text, VALUES] for text in asked])
    assert answers[len(some) :] == some
    assert answers[: len(some)] == [expanded(text, VALUES) for text in some]
