"""Which part of a text is not shown, and that the rest is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.queue.text_secrets import (
    HIDDEN,
    secret_name,
    value_without_secrets,
    without_secrets,
    words_without_secrets,
)
from tests.findings.test_address_secrets import SECRET, WITH_SECRET, WITHOUT
from tests.growth import LINEAR, growth

TEXTS = (
    f"PASSWORD={SECRET} python train.py",
    f"export AWS_SECRET_ACCESS_KEY='{SECRET} x'; python train.py",
    f"curl -H 'Authorization: Bearer {SECRET}' https://x",
    f'curl -d \'{{"api_key": "{SECRET}"}}\' https://x',
    f"python train.py --hf-token={SECRET} --seed=42",
    f"psql postgres://u:p@ss#{SECRET}@h/d -c 'select 1'",
    f"https://hooks.example/x?a=b&sig={SECRET}",
    f"git clone https://{SECRET}@git.example/x && cd x",
)
LEGIBLE = (
    "python train.py --seed=42 --lr=1e-3 --tokens 5",
    "torchrun --rdzv-endpoint=$GPUPOOL_FIRST_NODE:29500 train.py",
    "for x in 1 2; do echo $x: $((x=x+1)); done",
    "pip install git+ssh://git@git.example/x.git@v1",
    "docker.io/library/busybox:1.37@sha256:0",
    "the password is asked for",
)


@pytest.mark.parametrize(
    "text", [*TEXTS, *(address for address in WITH_SECRET if not re.search("%77|, ", address))]
)
def test_a_secret_is_not_shown(text: str) -> None:
    shown = without_secrets(text)
    assert SECRET not in shown
    assert HIDDEN in shown


@pytest.mark.parametrize("text", [*LEGIBLE, *WITHOUT])
def test_the_rest_is_shown_as_it_is(text: str) -> None:
    assert without_secrets(text) == text


def test_the_word_after_an_option() -> None:
    line = ["login", "--password", SECRET, "-u", "me", "--token", "--verbose", "--lr", "1", "--api-key"]
    shown = ["login", "--password", HIDDEN, "-u", "me", "--token", "--verbose", "--lr", "1", "--api-key"]
    assert words_without_secrets(line) == shown


def test_json_has_hidden_members_and_texts() -> None:
    value = {"a": [{"db_password": SECRET, "n": 1}, f"TOKEN={SECRET}"], "max_tokens": 5, "token": {"x": "y"}}
    assert value_without_secrets(value) == {
        "a": [{"db_password": HIDDEN, "n": 1}, f"TOKEN={HIDDEN}"],
        "max_tokens": 5,
        "token": {"x": "y"},
    }


@given(st.sampled_from(["password", "secret", "token", "api_key"]), st.text("ab:/@=&'\" ?#", max_size=20))
def test_any_text_is_kept_but_for_the_secret(name: str, text: str) -> None:
    assert secret_name(name)
    assert SECRET not in without_secrets(f"{text} {name}={SECRET}")


@pytest.mark.parametrize("piece", ["a", "://a:", "://a", "x=", "token=", "a.", "'", "x='", "https"])
def test_long_texts_take_no_square_of_their_length(piece: str) -> None:
    assert growth(lambda size: without_secrets(piece * size + "=@"), 4_000) < LINEAR
