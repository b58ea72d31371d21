"""Functions over texts: URLs, regular expressions, versions, named formats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vapcheck.cel.errors import CelError
from vapcheck.cel.libraries.name_formats import OVERLOADS as FORMATS
from vapcheck.cel.libraries.name_formats import named, validate
from vapcheck.cel.libraries.patterns import compile_pattern, find, find_all, search
from vapcheck.cel.libraries.urls import is_url, parameters, parse_url
from vapcheck.cel.libraries.versions import compare, is_semver, parse_semver
from vapcheck.go_text import quote


def problems(format: str, text: str) -> list[str]:
    found = validate(named(format).value, text)
    return list(found.value) if found.present else []


@given(st.text(max_size=40))
def test_no_text_crashes(text: str) -> None:
    if is_url(text):
        parameters(parse_url(text))
        assert str(parse_url(text))
    is_semver(text, True)
    for overload in FORMATS:
        if not overload.parameters:
            validate(overload.call(), text)


def test_parts_of_a_url() -> None:
    url = parse_url("https://user:pa%20ss@[::1]:8443/a%2Fb/c d?x=1&x=2&y=a+b&bad=%zz&no;pe#frag")
    assert (url.scheme, url.host, url.user) == (b"https", b"[::1]:8443", (b"user", b"pa ss"))
    assert parameters(url) == {"x": ["1", "2"], "y": ["a b"]}
    assert str(parse_url("HTTP://h/ä")) == "http://h/%C3%A4"
    assert parse_url("http://h/a%2Fb").equals(parse_url("http://h/a%2Fb"))
    assert not parse_url("http://h/a").equals(parse_url("http://h/b"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("../relative", 'parse "../relative": invalid URI for request'),
        ("https://a:b:c/", 'parse "https://a:b:c/": invalid port ":b:c" after host'),
        ("https://[::1", "parse \"https://[::1\": missing ']' in host"),
        ("https://h/%zz", 'parse "https://h/%zz": invalid URL escape "%zz"'),
        ("https://a b/", 'parse "https://a b/": invalid character " " in host name'),
        ("https://ex%41mple.com/", 'parse "https://ex%41mple.com/": invalid URL escape "%41"'),
        ("", 'parse "": empty url'),
    ],
)
def test_wrong_urls(text: str, message: str) -> None:
    assert not is_url(text)
    with pytest.raises(CelError) as caught:
        parse_url(text)
    assert str(caught.value) == f"URL parse error during conversion from string: {message}"


def test_matches_as_in_go() -> None:
    assert find("abc 123", "[0-9]+") == "123"
    assert find("abc", "x") == ""
    assert find_all("123 abc", "[0-9]*") == ["123", "", "", "", ""]
    assert find_all("日本 日", "日|本", 2) == ["日", "本"]
    assert find_all("aaa", "a", 0) == []
    assert search("häuser", "^h.users?$")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2000}", "invalid repeat count: `{2000}`"),
        ("\\C", "invalid escape sequence: `\\C`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
    ],
)
def test_wrong_patterns(pattern: str, message: str) -> None:
    with pytest.raises(CelError) as caught:
        compile_pattern(pattern)
    assert str(caught.value) == f"error parsing regexp: {message}"


def test_a_pattern_built_to_explode_does_not() -> None:
    """A matcher that goes back to try again would not end in this world's time."""
    assert find_all("a" * 50_000 + "!", "^(a+)+$") == []


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("1.2.3", "1.10.0"),
        ("1.0.0-alpha", "1.0.0"),
        ("1.0.0-1", "1.0.0-alpha"),
        ("1.0.0-alpha", "1.0.0-alpha.1"),
        ("1.0.0-2", "1.0.0-10"),
    ],
)
def test_order_of_versions(low: str, high: str) -> None:
    assert compare(parse_semver(low), parse_semver(high)) == -1
    assert compare(parse_semver(high), parse_semver(low)) == 1
    assert parse_semver(low + "+x").equals(parse_semver(low + "+y"))


def test_normalised_versions() -> None:
    assert str(parse_semver("v01.2", True)) == "1.2.0"
    assert not is_semver("v1.2.3")
    with pytest.raises(CelError, match="short version cannot contain"):
        parse_semver("1-rc1", True)
    with pytest.raises(CelError, match="value out of range"):
        parse_semver("18446744073709551616.0.0")


def test_formats() -> None:
    assert not problems("dns1123Label", "a-b")
    assert problems("dns1123Label", "a.b") == ["must not contain dots"]
    assert not problems("dns1123LabelPrefix", "ab-")
    assert problems("labelValue", "a" * 64) == ["must be no more than 63 bytes"]
    assert problems("dns1035Label", "1a")[0].startswith("a DNS-1035 label must consist")
    assert problems("qualifiedName", "/x") == ["prefix part must be non-empty"]
    assert not problems("qualifiedName", "example.com/X")
    assert problems("date", "2023-02-29") == ["invalid date"]
    assert not problems("date", "2024-02-29")
    assert not problems("datetime", "2024-02-29t12:00:00z")
    assert problems("datetime", "2024-02-29T24:00:00Z") == ["invalid datetime"]
    assert problems("byte", "aGVsbG8") == ["invalid base64"]
    assert not problems("uuid", "123E4567-e89b12d3-a456-426614174000")
    assert problems("uuid", "123E4567-e89b12d3-a456-426614174000\n")
    assert not named("nosuch").present


def test_quoting() -> None:
    assert quote('a"\\\n\x01é\u200b🙂') == '"a\\"\\\\\\n\\x01é\\u200b🙂"'
    assert quote(b"\xff") == '"\\xff"'
