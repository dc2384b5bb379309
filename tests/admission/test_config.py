"""The scheduler's file: what it may say, and what each fault is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from smgproxy.admission.classes import BUILT_IN, ClassLimits
from smgproxy.admission.config import parse_config, read_config
from smgproxy.admission.yamlfile import YamlFault

WHOLE = """\
classes:
  bulk:
    reserved_floor: 1
    reserved_per_slot: 0.5
    queue_size: 2
    queue_timeout_secs: 3
    starvation_threshold_secs: 4
    can_preempt: true
tenant_policies:
  auth:red: {max_class: system}
  anonymous:
    max_class: bulk
"""


def test_a_class_that_is_given_replaces_its_built_in_row_others_stay() -> None:
    config = parse_config(WHOLE.encode(), "f")
    assert config.limits == (ClassLimits(1, 0.5, 2, 3, 4, True), *BUILT_IN[1:])


def test_tenants_get_their_ceilings() -> None:
    config = parse_config(WHOLE.encode(), "f")
    assert (config.ceilings, config.notices) == ({"auth:red": 3, "anonymous": 0}, ())


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "classes:\n", "{}"])
def test_an_empty_file_means_the_built_in_classes(text: str) -> None:
    config = parse_config(text.encode(), "f")
    assert (config.limits, config.ceilings) == (BUILT_IN, {})


def test_the_share_of_a_class_may_be_left_out() -> None:
    text = WHOLE.replace("    reserved_per_slot: 0.5\n", "")
    assert parse_config(text.encode(), "f").limits[0].reserved_per_slot == 0.0


def test_a_tenant_key_that_nobody_can_have_is_worth_a_line_in_the_log() -> None:
    config = parse_config(b"tenant_policies:\n  acme: {max_class: bulk}\n", "f")
    assert config.notices == (
        "f:2: tenant_policies.acme: no request has this tenant key; write auth:<id>, "
        "header:<id>, ip:<address> or anonymous",
    )


FIELDS = (
    "reserved_floor, queue_size, queue_timeout_secs, starvation_threshold_secs, "
    "can_preempt"
)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "tenant_policies:",
            "tenants:",
            "9: tenants: unknown key; use classes or tenant_policies",
        ),
        (
            "  bulk:",
            "  urgent:",
            "2: classes.urgent: unknown class; use bulk, default, interactive or "
            "system",
        ),
        (
            "  bulk:",
            "  Bulk:",
            "2: classes.Bulk: unknown class; use bulk, default, interactive or system",
        ),
        (
            "    can_preempt: true\n",
            "",
            f"2: classes.bulk: can_preempt is missing; needed are {FIELDS}",
        ),
        (
            "reserved_floor",
            "floor",
            f"3: classes.bulk.floor: unknown key; use {FIELDS} or reserved_per_slot",
        ),
        (
            "reserved_floor: 1",
            "reserved_floor: -1",
            "3: classes.bulk.reserved_floor: must be a whole number, 0 or more, not -1",
        ),
        (
            "queue_size: 2",
            "queue_size: 2.5",
            "5: classes.bulk.queue_size: must be a whole number, 0 or more, not 2.5",
        ),
        (
            "queue_size: 2",
            'queue_size: "2"',
            "5: classes.bulk.queue_size: must be a whole number, 0 or more, not '2'",
        ),
        (
            "queue_size: 2",
            "queue_size:",
            "5: classes.bulk.queue_size: must be a whole number, 0 or more, "
            "not nothing",
        ),
        (
            "queue_timeout_secs: 3",
            "queue_timeout_secs: 0",
            "6: classes.bulk.queue_timeout_secs: must be a whole number, 1 or more, "
            "not 0",
        ),
        (
            "queue_timeout_secs: 3",
            "queue_timeout_secs: 1:30",
            "6: classes.bulk.queue_timeout_secs: must be a whole number, 1 or more, "
            "not 1:30",
        ),
        (
            "starvation_threshold_secs: 4",
            "starvation_threshold_secs: [4]",
            "7: classes.bulk.starvation_threshold_secs: must be a whole number, "
            "1 or more, not a list",
        ),
        (
            "reserved_per_slot: 0.5",
            "reserved_per_slot: .nan",
            "4: classes.bulk.reserved_per_slot: must be a finite number, 0 or more, "
            "not .nan",
        ),
        (
            "reserved_per_slot: 0.5",
            "reserved_per_slot: 1e999",
            "4: classes.bulk.reserved_per_slot: must be a finite number, 0 or more, "
            "not 1e999",
        ),
        (
            "reserved_per_slot: 0.5",
            "reserved_per_slot: -0.1",
            "4: classes.bulk.reserved_per_slot: must be a finite number, 0 or more, "
            "not -0.1",
        ),
        (
            "can_preempt: true",
            "can_preempt: yes",
            "8: classes.bulk.can_preempt: must be true or false, not yes",
        ),
        (
            "{max_class: system}",
            "{max_class: highest}",
            "10: tenant_policies.auth:red.max_class: must be bulk, default, "
            "interactive or system, not highest",
        ),
        (
            "{max_class: system}",
            "system",
            "10: tenant_policies.auth:red: must be a mapping, not system",
        ),
        (
            "{max_class: system}",
            "",
            "10: tenant_policies.auth:red: max_class is missing; needed are max_class",
        ),
        (
            "  anonymous:",
            "  auth:red:",
            "11: tenant_policies.auth:red: given twice, first in line 10; remove one "
            "of them",
        ),
    ],
)
def test_a_fault_is_named_with_its_line_its_place_and_what_would_be_right(
    old: str, new: str, fault: str
) -> None:
    text = WHOLE.replace(old, new, 1)
    assert text != WHOLE
    with pytest.raises(YamlFault) as caught:
        parse_config(text.encode(), "sched.yaml")
    assert str(caught.value) == f"sched.yaml:{fault}"


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "sched.yaml"
    path.write_text(WHOLE)
    assert read_config(str(path)) == parse_config(WHOLE.encode(), "f")


def test_the_documented_file_says_what_is_built_in() -> None:
    page = (Path(__file__).parents[2] / "docs" / "admission.md").read_text()
    start = page.index("    classes:\n")
    text = page[start : page.index("\n\n", start)]
    config = parse_config(text.encode(), "docs")
    assert config.limits == BUILT_IN
    assert config.ceilings == {"auth:red": 3, "anonymous": 0}
