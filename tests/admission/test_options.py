"""The flags of admission: defaults, bounds, and values that do not go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from smgproxy.admission.options import (
    LimiterOptions,
    SchedulerOptions,
    parse_class,
    parse_config_path,
)
from smgproxy.core.options import flags_of


def test_the_defaults_are_the_contracts() -> None:
    limiter, scheduler = LimiterOptions(), SchedulerOptions()
    assert [getattr(limiter, field.name) for field, _ in flags_of(limiter)] == [
        *(-1, 100, 60, None)
    ]
    assert [getattr(scheduler, field.name) for field, _ in flags_of(scheduler)] == [
        *(False, "default", None, 32, "none")
    ]


@pytest.mark.parametrize("limit", [-1, 0, 100])
def test_a_queue_needs_a_timeout_even_while_the_limit_is_off(limit: int) -> None:
    with pytest.raises(
        ValueError, match="^--queue-timeout-secs: must be above 0 while"
    ):
        LimiterOptions(limit, queue_size=1, queue_timeout_secs=0)


def test_without_a_queue_the_timeout_may_be_0() -> None:
    assert LimiterOptions(queue_size=0, queue_timeout_secs=0).queue_size == 0


@pytest.mark.parametrize("text", ["interactive", " InterActive ", "INTERACTIVE"])
def test_a_class_is_read_as_leniently_as_the_header(text: str) -> None:
    assert parse_class(text) == "interactive"


@pytest.mark.parametrize("text", ["", "urgent", "bulk,default"])
def test_a_class_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_class(text)
    assert str(caught.value) == (
        f"must be one of system, interactive, default, bulk, got '{text}'"
    )


def test_the_file_is_read_when_the_flag_is(tmp_path: Path) -> None:
    path = tmp_path / "sched.yaml"
    path.write_text("tenant_policies: {anonymous: {max_class: bulk}}\n")
    assert parse_config_path(str(path)).ceilings == {"anonymous": 0}
    with pytest.raises(ValueError, match="cannot be read"):
        parse_config_path(str(tmp_path / "none.yaml"))
