"""Requests that schemathesis makes of the OpenAPI description, good and bad ones.

Whatever they are, the gateway never fails over them, and answers as it is described.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from smgproxy.api.openapi import document
from tests.e2e.conftest import SIMULATED
from tests.e2e.process import MODEL, RunningGateway

# A name for each profile, all of them served.
MODELS = (
    *(MODEL, "kimi-k2", "kimi-k3", "minimax-m2", "glm-4.5", "glm-5.3"),
    *("deepseek-v4-pro", "deepseek-v4.1-flash"),
)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
# The whole takes twenty seconds with so many requests of each kind.
REQUESTS = 15

FOUND: Any = schemathesis.openapi.from_dict(document()).get_all_operations()
OPERATIONS = {
    f"{one.method.upper()} {one.path}": one for one in (each.ok() for each in FOUND)
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway whose workers serve a model of every profile."""
    aliases = [f"--model-alias={name}={MODEL}" for name in MODELS[1:]]
    folder = tmp_path_factory.mktemp("gateway")
    with RunningGateway(folder, *SIMULATED, *aliases) as running:
        running.wait_until()
        yield running
        assert running.stop() == 0


def ask(name: str, mode: GenerationMode, url: str, checks: list[Any]) -> None:
    """Ask the gateway what the description allows, or does not."""
    cases: Any = OPERATIONS[name].as_strategy(generation_mode=mode)

    @given(case=cases, model=st.sampled_from(MODELS))
    @settings(
        max_examples=REQUESTS,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],  # to make it smaller takes minutes
        suppress_health_check=list(HealthCheck),
    )
    def answered(case: Any, model: str) -> None:
        if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
            case.body["model"] = model  # any other is not served
            for name in ("ignore_eos", "min_tokens"):  # an answer without end
                case.body.pop(name, None)
        case.call_and_validate(base_url=url, checks=checks)

    answered()


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_good_request_is_answered_as_described(
    served: RunningGateway, name: str
) -> None:
    ask(name, GenerationMode.POSITIVE, served.url, CHECKS)


@pytest.mark.parametrize(
    "name", [name for name, one in OPERATIONS.items() if one.method == "post"]
)
def test_a_bad_request_is_refused_as_described(
    served: RunningGateway, name: str
) -> None:
    checks = [*CHECKS, negative_data_rejection]
    if name == "POST /v1/audio/transcriptions":
        checks.pop()  # fields of a form that are not modelled are ignored
    ask(name, GenerationMode.NEGATIVE, served.url, checks)
