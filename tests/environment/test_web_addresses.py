"""Texts that are web addresses, and those that are none or stand for another address than they show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.environment.web_addresses import WrongAddress, allowed, origin, parsed

WRONG = [
    "ftp://a", "http://", "http:///a", "file:///etc/passwd", "a", "", "//a", "http:a",
    "http://a\\b/", "http://\\a",
    "http://user@a/", "http://:@a/", "http://@a/", "http://a@b@c/", "http://a%2eb/", "http://%61/",
    "http://a b/",
    "http://loßless.test/", "http://\uff45xample/", "http://\uff11\uff12\uff17.0.0.1/",
    "http://127\u30020\u30020\u30021/", "http://a\u200bb/",
    "http://a:/", "http://a:0/", "http://a:00080/", "http://a:65536/", "http://a:+80/", "http://a:8_0/",
    "http://a:\uff18\uff10/", "http://a:-1/", "http://a:80:80/",
    "http://127.1/", "http://2130706433/", "http://0x7f.1/", "http://0x7f000001/", "http://0177.0.0.1/",
    "http://127.0.0.01/", "http://127.0.0.0x1/", "http://1.2.3.4.5/", "http://256.0.0.1/", "http://a.0x/",
    "http://a./", "http://127.0.0.1./", "http://.a/", "http://a..b/", "http://-a/", "http://a-/",
    "http://[fe80::1%25eth0]/", "http://[fe80::1%eth0]/", "http://[::1/", "http://::1/", "http://[::1]a/",
    "http://[127.0.0.1]/", "http://[]@", "http://[@]/", "http://[v1.a]/", "http://[::1:]/", "http://[1:2:3:4:5:6:7:8:9]/",
    f"http://{'a' * 64}/", "http://" + "a." * 127 + "a/",
]  # fmt: skip
"""The host is outside ASCII, is read in two ways, or is no name or address at all; so are some ports."""


@pytest.mark.parametrize("text", WRONG, ids=ascii)
def test_what_is_no_web_address(text: str) -> None:
    with pytest.raises(WrongAddress, match="not an http or https URL"):
        parsed(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://Example.COM:80/x", "http://example.com"),
        ("HTTPS://a:443/#@b", "https://a"),
        ("https://a:8443/?u=http://b/", "https://a:8443"),
        ("http://[::1]:80/", "http://[::1]"),
        ("http://[0:0::FFFF:a9fe:a9fe]/", "http://[::ffff:a9fe:a9fe]"),
        ("http://xn--loless-cta.test/", "http://xn--loless-cta.test"),
        ("http://127.0.0.1:9000/ä\t", "http://127.0.0.1:9000"),
        ("http://my_models.vision.svc/", "http://my_models.vision.svc"),
        ("http://" + "a" * 63, "http://" + "a" * 63),
    ],
)
def test_origins(text: str, expected: str) -> None:
    assert origin(parsed(text)) == expected


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/x", "http://a:81/x"), ("?q", "http://a:81/d/e?q"), ("x y", "http://a:81/d/x%20y"),
        ("//b/x", "http://b/x"), ("https://b/", "https://b/"), ("", "http://a:81/d/e"),
        ("/\\b/x", "http://a:81/%5Cb/x"), ("/ä", "http://a:81/%C3%A4"), ("http:x", "http://a:81/d/x"),
    ],
)  # fmt: skip
def test_redirects_are_resolved(location: str, expected: str) -> None:
    assert str(parsed(location, parsed("http://a:81/d/e"))) == expected


@pytest.mark.parametrize(
    "location",
    ["//loßless.test/", "//u@a/", "ftp://a/", "//a:0/", "//127.1/", "javascript:1", "//[fe80::1%25e]/"],
)
def test_redirects_to_what_is_no_web_address(location: str) -> None:
    with pytest.raises(WrongAddress):
        parsed(location, parsed("http://a:81/d/e"))


def test_a_target_may_be_written_with_its_default_port() -> None:
    assert allowed(parsed("http://models/x"), ["http://models:80"])
    assert allowed(parsed("https://models:443/x"), ["https://models"])
    assert not allowed(parsed("http://models:81/x"), ["http://models:80"])


@pytest.mark.parametrize("text", ["http://me:secret@a/b@c", "http://me:secret@a\u2100b/"])
def test_no_password_is_shown(text: str) -> None:
    with pytest.raises(WrongAddress) as error:
        parsed(text)
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


@given(st.text(alphabet="aß.0x1:@/\\%[]#?\t\uff11\u3002-", max_size=12))
def test_an_address_is_called_as_it_is_written(rest: str) -> None:
    """Whatever is accepted has the host that stands in the text, but for upper case."""
    try:
        url = parsed(f"http://{rest}")
    except WrongAddress:
        return
    assert f"http://{rest}".replace("\t", "").startswith(f"http://{url.raw_host}") or url.raw_host.count(":")
