"""Origins given at start are checked then."""

from __future__ import annotations

import pytest

from smgproxy.api.cors import CorsOptions, parse_origin


@pytest.mark.parametrize(
    "text", ["*", "null", "https://a.example", "http://localhost:3000", "app://x"]
)
def test_an_origin_is_taken_as_given(text: str) -> None:
    assert parse_origin(text) == text


@pytest.mark.parametrize(
    "text", ["", "a.example", "https://", "https://a/", "https://a/b", "https://é"]
)
def test_what_no_browser_sends_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be an origin"):
        parse_origin(text)


def test_a_star_stands_alone() -> None:
    CorsOptions(("*",))
    with pytest.raises(ValueError, match=r"^--cors-allowed-origins: \* must stand"):
        CorsOptions(("*", "https://a.example"))
