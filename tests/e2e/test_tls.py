"""Handshakes of clients: what is agreed on, who is refused, and how it is counted."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any

import pytest

from tests.e2e.asking import get
from tests.e2e.secure import no_connection_left, plain_client
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.certificates import Authority
from tests.fakes.client import post


@pytest.fixture
def mutual(https: dict[str, Any], authority: Authority) -> dict[str, Any]:
    """The flags of a gateway that wants certificates of its clients."""
    return {**https, "tls_client_ca_paths": (authority.path,)}


def failures(stage: Stage) -> dict[str, int]:
    return stage.gateway.listener.failed_handshakes


def test_requests_and_answers_pass(https: dict[str, Any], authority: Authority) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client(tls=authority.trusting())
        for _ in range(3):
            assert (await client.ask(post())).body == b'{"ok":true}'
        assert stage.gateway.listener.accepted == 1
        client.close()
        await no_connection_left(stage)
        assert failures(stage) == {}

    play(scene, tls=https)


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_both_versions_are_spoken(
    version: str, https: dict[str, Any], authority: Authority
) -> None:
    async def scene(stage: Stage) -> None:
        context = authority.trusting()
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        client = await stage.client(tls=context)
        assert (await client.ask(post())).status == 200
        wire = client.writer.get_extra_info("ssl_object")
        assert wire.compression() is None
        assert wire.cipher()[0].startswith(("TLS_", "ECDHE-"))
        client.close()

    play(scene, tls=https)


def test_older_versions_are_refused(
    https: dict[str, Any], authority: Authority
) -> None:
    async def scene(stage: Stage) -> None:
        context = authority.trusting()
        # To be allowed to offer it at all.
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning):
            context.minimum_version = ssl.TLSVersion.TLSv1_1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await stage.client(tls=context)
        await no_connection_left(stage)
        assert failures(stage) == {"no_common_version": 1}

    play(scene, tls=https)


def test_alpn_chooses_http11(https: dict[str, Any], authority: Authority) -> None:
    async def scene(stage: Stage) -> None:
        for offered, chosen in (
            (["x", "http/1.1"], "http/1.1"),
            (["x"], None),
        ):
            context = authority.trusting()
            context.set_alpn_protocols(offered)
            client = await stage.client(tls=context)
            wire = client.writer.get_extra_info("ssl_object")
            assert wire.selected_alpn_protocol() == chosen
            assert (await client.ask(post())).status == 200
            client.close()

    play(scene, tls=https)


def resume(stage: Stage, context: ssl.SSLContext) -> bool:
    """Ask over two connections; whether the second one took up the first's session."""
    session, is_resumed = None, None
    for _ in range(2):
        with plain_client(stage, context, session) as wire:
            wire.sendall(get("/health"))
            assert wire.recv(65536).startswith(b"HTTP/1.1 200")
            session, is_resumed = wire.session, wire.session_reused
            wire.unwrap()  # OpenSSL forgets a session that did not end well
    return bool(is_resumed)


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_sessions_are_resumed_by_ticket(
    version: str, https: dict[str, Any], authority: Authority
) -> None:
    async def scene(stage: Stage) -> None:
        context = authority.trusting()
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        assert await asyncio.to_thread(resume, stage, context)

    play(scene, tls=https)


# -- who is refused ------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", [get("/health"), post(), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\0" * 99]
)
def test_plain_bytes_on_the_tls_port_are_turned_away_quietly(
    sent: bytes, https: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(sent)
        assert b"HTTP" not in await client.until_closed()
        client.close()
        await no_connection_left(stage)
        why = "malformed" if sent[:3] in (b"PRI", b"\0\0\0") else "plain_http"
        assert failures(stage) == {why: 1}
        assert stage.gateway.http.requests == {}

    play(scene, tls=https)
    assert not caplog.records


def test_clients_that_do_not_believe_the_server_are_counted(
    https: dict[str, Any], stranger: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(stage: Stage) -> None:
        def come() -> None:
            with plain_client(stage, stranger.trusting()):
                pass

        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.to_thread(come)
        await no_connection_left(stage)
        assert failures(stage) == {"refused_by_client": 1}

    play(scene, tls=https)
    assert not caplog.records


def test_clients_that_leave_within_the_handshake_are_counted(
    https: dict[str, Any],
) -> None:
    async def scene(stage: Stage) -> None:
        leaving = [await stage.client() for _ in range(2)]
        await eventually(lambda: stage.gateway.listener.open_connections == 2)
        leaving[0].close()
        leaving[1].reset()
        await no_connection_left(stage)
        assert failures(stage) == {"closed": 2}

    play(scene, tls=https)


def test_stalled_handshakes_end_at_their_deadline(https: dict[str, Any]) -> None:
    async def scene(stage: Stage) -> None:
        silent, slow = await stage.client(), await stage.client()
        await slow.send(b"\x16\x03\x01\x02\x00\x01")  # a record that does not end
        began = time.monotonic()
        assert await silent.until_closed() == b""
        assert await slow.until_closed() == b""
        assert 0.9 < time.monotonic() - began < 3
        assert failures(stage) == {"timeout": 2}
        silent.close()
        slow.close()

    play(scene, tls={**https, "tls_handshake_timeout_secs": 1})


def test_stalled_handshakes_count_as_connections(
    https: dict[str, Any], authority: Authority
) -> None:
    async def scene(stage: Stage) -> None:
        stalled = [await stage.client() for _ in range(2)]
        await eventually(lambda: stage.gateway.listener.open_connections == 2)
        one_more = await stage.client()
        assert await one_more.until_closed() == b""
        assert stage.gateway.listener.turned_away == 1
        stalled.pop().close()
        await eventually(lambda: stage.gateway.listener.open_connections == 1)
        client = await stage.client(tls=authority.trusting())
        assert (await client.ask(post())).status == 200
        for each in (*stalled, client, one_more):
            each.close()

    play(scene, tls=https, clients={"max_connections": 2})


# -- client certificates -------------------------------------------------------------


def test_client_with_a_certificate_of_the_ca_is_served(
    mutual: dict[str, Any], authority: Authority
) -> None:
    async def scene(stage: Stage) -> None:
        tls = authority.trusting(authority.issue("client", "somebody.example"))
        client = await stage.client(tls=tls)
        assert (await client.ask(post())).status == 200
        client.close()

    play(scene, tls=mutual)


async def refused(stage: Stage, tls: ssl.SSLContext) -> None:
    """A request for which there is no answer; TLS 1.3 clients learn it on reading."""
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        client = await stage.client(tls=tls)
        await client.ask(post())
    await no_connection_left(stage)
    assert stage.worker.received == []


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_client_without_a_certificate_is_refused(
    version: str, mutual: dict[str, Any], authority: Authority
) -> None:
    async def scene(stage: Stage) -> None:
        context = authority.trusting()
        context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
        await refused(stage, context)
        assert failures(stage) == {"no_certificate": 1}

    play(scene, tls=mutual)


def test_client_with_a_certificate_of_another_ca_is_refused(
    mutual: dict[str, Any], authority: Authority, stranger: Authority
) -> None:
    async def scene(stage: Stage) -> None:
        await refused(stage, authority.trusting(stranger.issue("client", "me.example")))
        assert failures(stage) == {"bad_certificate": 1}

    play(scene, tls=mutual)


def test_a_drain_closes_idle_connections_and_drops_handshakes(
    https: dict[str, Any], authority: Authority
) -> None:
    async def scene(stage: Stage) -> None:
        stalled = await stage.client()
        idle = await stage.client(tls=authority.trusting())
        assert (await idle.ask(post())).status == 200
        stage.gateway.listener.drain()
        assert await idle.until_closed() == b""
        assert await stalled.until_closed() == b""
        for each in (idle, stalled):
            each.close()
        await no_connection_left(stage)

    play(scene, tls=https)
