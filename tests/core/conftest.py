"""A source and a sink that do what the test says."""

from __future__ import annotations

import pytest

from tests.core.scripted import ScriptedSink, ScriptedSource


@pytest.fixture
def source() -> ScriptedSource:
    return ScriptedSource()


@pytest.fixture
def sink() -> ScriptedSink:
    return ScriptedSink()
