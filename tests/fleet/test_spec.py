import math

import pytest

from smgproxy.fleet.breaker import BreakerSettings
from smgproxy.fleet.fields import InvalidSpec
from smgproxy.fleet.overload import OverloadLimits
from smgproxy.fleet.spec import check_api_key, check_url, parse_patch, parse_spec
from smgproxy.fleet.worker import HealthSettings, HttpPoolSettings

URL = "http://127.0.0.1:8000"
MISFIT = "Invalid JSON data: Failed to deserialize the JSON body into the target type: "


def refusal(given: object) -> str:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(given)
    return str(caught.value)


def test_a_url_is_all_a_spec_needs() -> None:
    spec = parse_spec({"url": URL})
    assert (spec.url, spec.priority, spec.cost) == (URL, 50, 1.0)
    assert (spec.runtime_type, spec.models, spec.api_key) == ("unspecified", (), None)
    assert spec.blocks() == {}


def test_unknown_fields_and_nulls_are_ignored() -> None:
    spec = parse_spec({"url": URL, "zzz": 1, "labels": None, "resilience": None})
    assert spec == parse_spec({"url": URL})


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "URL cannot be empty"),
        (
            "ftp://x",
            "URL must start with a lowercase http://, https://, grpc://, grpcs://, "
            "or ipc:// scheme",
        ),
        ("http://", "Invalid URL format: empty host"),
        ("http://:80", "Invalid URL format: empty host"),
        ("ipc://", "ipc:// worker URL must include a socket path"),
        ("http://h:99999", "Invalid URL format: invalid port number or address"),
        ("http://h:0", "Invalid URL format: invalid port number"),
        ("http://h:", "Invalid URL format: invalid port number"),
        ("http://a b", "Invalid URL format: invalid character"),
        ("http://a\r\nx-y:1", "Invalid URL format: invalid character"),
        ("http://h\u00e9", "Invalid URL format: invalid character"),
        ("grpc://h:1", "grpc:// workers are not supported yet by smgproxy"),
        ("grpcs://h:1", "grpcs:// workers are not supported yet by smgproxy"),
        (
            "http://u:p@h",
            "URL must not hold a user name or password, use the field api_key",
        ),
        (
            "http://h/v1",
            "URL must end behind host and port: paths are not supported yet",
        ),
        (
            "http://api.openai.com",
            "external providers are not supported yet by smgproxy",
        ),
    ],
)
def test_a_url_that_no_worker_can_have_is_named_with_its_fault(
    url: str, why: str
) -> None:
    named = f"Invalid value for field 'worker_url': {url}"
    assert refusal({"url": url}) == f"{named} - {why}"


def test_a_very_long_url_is_not_repeated() -> None:
    assert len(refusal({"url": "http://" + "a" * 100_000})) < 200


@pytest.mark.parametrize("name", ["", "\ud800", "a\x00", "a\nb", "\x1b[2J", "a" * 513])
def test_a_model_id_that_could_not_be_shown_is_refused_unshown(name: str) -> None:
    why = "invalid value: expected a model id of 1 to 512 printable characters"
    given = {"url": URL, "models": [{"id": "m"}, {"id": name}]}
    assert refusal(given) == f"{MISFIT}models[1].id: {why}"
    given = {"url": URL, "models": [{"id": "m", "aliases": ["n", name]}]}
    assert refusal(given) == f"{MISFIT}models[0].aliases[1]: {why}"


@pytest.mark.parametrize("name", ["m", "org/Model-7B", "模型", "a b", "a" * 512])
def test_a_model_id_may_be_in_any_language(name: str) -> None:
    (card,) = parse_spec({"url": URL, "models": [{"id": name}]}).models
    assert card["id"] == name


@pytest.mark.parametrize("url", [URL, URL + "/", "http://[::1]:80", "http://mymax.ai"])
def test_a_good_url_is_kept_letter_by_letter(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "the body: invalid type: sequence, expected a map"),
        ({}, "missing field `url`"),
        ({"url": 5}, "url: invalid type: integer `5`, expected a string"),
        (
            {"url": URL, "worker_type": "foo"},
            "worker_type: unknown variant `foo`, expected one of `regular`, "
            "`prefill`, `decode`, `encode`",
        ),
        (
            {"url": URL, "models": "x"},
            'models: invalid type: string "x", expected a sequence',
        ),
        ({"url": URL, "models": [{}]}, "models[0]: missing field `id`"),
        (
            {"url": URL, "models": [3]},
            "models[0]: invalid type: integer `3`, expected a map",
        ),
        (
            {"url": URL, "labels": {"a": 1}},
            "labels.a: invalid type: integer `1`, expected a string",
        ),
        (
            {"url": URL, "priority": -1},
            "priority: invalid value: integer `-1`, expected u32",
        ),
        (
            {"url": URL, "priority": True},
            "priority: invalid type: boolean `true`, expected u32",
        ),
        ({"url": URL, "cost": "x"}, 'cost: invalid type: string "x", expected f32'),
        (
            {"url": URL, "health": {"timeout_secs": 0.5}},
            "health.timeout_secs: invalid type: floating point `0.5`, expected u32",
        ),
        (
            {"url": URL, "http_pool": {"http2": 1}},
            "http_pool.http2: invalid type: integer `1`, expected a boolean",
        ),
    ],
)
def test_json_of_the_wrong_shape_is_named_with_its_place(
    given: object, why: str
) -> None:
    assert refusal(given) == MISFIT + why


def test_a_threshold_or_interval_of_nothing_is_refused() -> None:
    assert refusal({"url": URL, "health": {"check_interval_secs": 0}}) == (
        "Invalid value for field 'health.check_interval_secs': 0 - Must be >= 1"
    )


@pytest.mark.parametrize(
    "given",
    [
        {"worker_type": "prefill"},
        {"runtime_type": "external"},
        {"dp_size": 2},
        {"bootstrap_port": 1},
    ],
)
def test_what_is_not_built_is_refused_by_name(given: dict[str, object]) -> None:
    why = refusal({"url": URL, **given})
    assert why.endswith("is not supported yet by smgproxy")


def test_blocks_fill_in_over_the_gateways_settings_and_are_echoed() -> None:
    spec = parse_spec(
        {
            "url": URL,
            "health": {"timeout_secs": 2, "drain_settle_secs": 0, "foo": 1},
            "http_pool": {"http2": False, "timeout_secs": 9},
        }
    )
    assert spec.blocks() == {
        "health": {"timeout_secs": 2, "drain_settle_secs": 0},
        "http_pool": {"http2": False, "timeout_secs": 9},
    }
    health = spec.health_settings(HealthSettings(failure_threshold=7))
    assert (health.timeout_secs, health.drain_settle_secs) == (2, 0)
    assert health.failure_threshold == 7
    pool = spec.pool_settings(HttpPoolSettings(pool_idle_timeout_secs=4))
    assert (pool.timeout_secs, pool.pool_idle_timeout_secs) == (9, 4)


def test_overload_limits_left_open_are_the_gateways() -> None:
    spec = parse_spec({"url": URL, "overload": {"waiting_requests": 3}})
    assert spec.overload_limits(OverloadLimits(8, 0.7)) == OverloadLimits(3, 0.7)
    # Without protection of the gateway's, only what was given limits the worker.
    alone = spec.overload_limits(None)
    assert alone is not None
    assert (alone.waiting_requests, alone.token_usage) == (3, math.inf)
    assert parse_spec({"url": URL}).overload_limits(OverloadLimits()) is None


@pytest.mark.parametrize(
    ("block", "why"),
    [
        (
            {"waiting_requests": 0},
            "'overload.waiting_requests': 0 - "
            "Must be >= 1 (0 would mark every worker overloaded)",
        ),
        (
            {"token_usage": 1.5},
            "'overload.token_usage': 1.5 - Must be a fraction in (0.0, 1.0]",
        ),
        (
            {"token_usage": 0},
            "'overload.token_usage': 0 - Must be a fraction in (0.0, 1.0]",
        ),
    ],
)
def test_overload_limits_out_of_range_are_found_out_later(
    block: dict[str, object], why: str
) -> None:
    spec = parse_spec({"url": URL, "overload": block})
    with pytest.raises(InvalidSpec) as caught:
        spec.overload_limits(OverloadLimits())
    assert str(caught.value) == f"Invalid value for field {why}"


def test_a_breaker_of_its_own_fills_in_over_the_gateways() -> None:
    given = {
        "cb_failure_threshold": 2,
        "cb_timeout_secs": 9,
        "capacity_status_codes": [429, 503],
        "retryable_status_codes": [500],
        "max_retries": 7,
    }
    spec = parse_spec({"url": URL, "resilience": given})
    settings = spec.breaker_settings(BreakerSettings(success_threshold=5))
    assert settings == BreakerSettings(
        2, 5, 9, frozenset((429, 503)), frozenset((500,))
    )
    # Retry settings of a worker have no effect, and so are not shown.
    del given["max_retries"]
    assert spec.blocks() == {"resilience": given}


@pytest.mark.parametrize("codes", [[429.5], [True], [70000], ["429"], [-1]])
def test_a_list_of_statuses_holds_statuses(codes: list[object]) -> None:
    given = {"url": URL, "resilience": {"capacity_status_codes": codes}}
    assert refusal(given).startswith(MISFIT + "resilience.capacity_status_codes[0]:")


def test_runtime_has_two_spellings() -> None:
    assert parse_spec({"url": URL, "runtime": "vllm"}).runtime_type == "vllm"
    assert parse_spec({"url": URL, "runtime_type": "vllm"}).runtime_type == "vllm"


def test_a_card_keeps_known_fields_in_the_contracts_order() -> None:
    given = {"context_length": 7, "zzz": 1, "aliases": ["b"], "id": "a"}
    (card,) = parse_spec({"url": URL, "models": [given]}).models
    assert list(card.items()) == [
        ("id", "a"),
        ("aliases", ["b"]),
        ("model_type", ["chat", "completions", "responses", "tools"]),
        ("context_length", 7),
    ]


@pytest.mark.parametrize("key", ["a b", "a\r\nx: y", "k\u00e9y", "a\x00"])
def test_a_key_that_would_break_a_header_line_is_refused_unshown(key: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        check_api_key(key)
    assert key not in str(caught.value)
    assert refusal({"url": URL, "api_key": key}) == str(caught.value)


def test_a_patch_takes_what_may_change_and_ignores_the_rest() -> None:
    patch = parse_patch({"cost": 2, "url": 5, "labels": {"a": "b"}, "models": 3})
    assert (patch.cost, patch.labels) == (2.0, {"a": "b"})
    assert (patch.priority, patch.api_key, patch.health) == (None, None, None)


def test_a_number_too_long_for_a_word_is_refused_unshown() -> None:
    assert refusal({"url": URL, "priority": 10**400}) == (
        MISFIT + "priority: invalid value: integer out of range, expected u32"
    )
    assert "out of range" in refusal({"url": URL, "cost": 10**400})


@pytest.mark.parametrize("label", ["True", "1", "", "yes"])
def test_the_realtime_label_is_true_or_false(label: str) -> None:
    given = {"url": URL, "labels": {"realtime": label}}
    assert refusal(given) == (
        'Invalid value for field \'labels.realtime\': Must be "true" or "false"'
    )
    with pytest.raises(InvalidSpec):
        parse_patch({"labels": given["labels"]})


@pytest.mark.parametrize("label", ["true", "false"])
def test_a_good_realtime_label_is_kept(label: str) -> None:
    labels = {"realtime": label}
    assert parse_spec({"url": URL, "labels": labels}).labels == labels
    assert parse_patch({"labels": labels}).labels == labels
