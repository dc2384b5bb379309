"""Certificates and connections for the tests of this room."""

from __future__ import annotations

import ssl

import pytest

from tests.fakes.certificates import Authority
from tests.tls.stage import Line


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture(scope="module")
def serving(authority: Authority) -> ssl.SSLContext:
    context = authority.issue("server").serving()
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@pytest.fixture
def line(authority: Authority, serving: ssl.SSLContext) -> Line:
    """A server's side, the handshake done."""
    return Line(serving, authority.trusting()).handshake()


@pytest.fixture
def call(authority: Authority, serving: ssl.SSLContext) -> Line:
    """A client's side, the handshake done."""
    return Line(authority.trusting(), serving, is_server=False).handshake()
