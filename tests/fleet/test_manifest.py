import pytest
import ujson

from smgproxy.fleet.discovery import MAX_WANTED
from smgproxy.fleet.manifest import InvalidManifest, parse_manifest

A, B = "http://a:1", "http://b:1"


def manifest(*workers: object, version: object = 1) -> bytes:
    return ujson.dumps({"version": version, "workers": workers}).encode()


def refusal(data: bytes) -> str:
    with pytest.raises(InvalidManifest) as caught:
        parse_manifest(data, None)
    return str(caught.value)


def test_a_worker_is_known_by_its_id_or_else_by_its_url() -> None:
    found = parse_manifest(manifest({"url": A, "id": "x"}, {"url": B}), "k")
    assert {key: one.spec.url for key, one in found.items()} == {"x": A, B: B}
    assert {one.spec.api_key for one in found.values()} == {"k"}


def test_labels_tell_where_a_worker_comes_from() -> None:
    [one] = parse_manifest(manifest({"url": A, "id": "x"}), None).values()
    assert one.spec.labels == {
        "smg.ai/discovery-provider": "file",
        "smg.ai/discovery-id": "x",
        "smg.ai/discovery-spec-hash": one.digest,
    }
    assert len(one.digest) == 64


def test_a_model_id_renames_the_model() -> None:
    [one] = parse_manifest(manifest({"url": A, "model_id": "m"}), None).values()
    assert one.spec.labels["served_model_name"] == "m"


def test_any_change_of_an_entry_changes_its_digest() -> None:
    digests = {
        parse_manifest(manifest(entry), None)[A].digest
        for entry in (
            {"url": A},
            {"url": A, "id": A},
            {"url": A, "model_id": "m"},
            {"url": A, "model_id": "n"},
        )
    }
    assert len(digests) == 4


def test_no_workers_is_a_manifest_too() -> None:
    assert parse_manifest(manifest(), None) == {}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "Input data was truncated"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"version":1}', "Object missing required field `workers`"),
        (b'{"version":1,"workers":[],"x":1}', "Object contains unknown field `x`"),
        (
            manifest({"url": A, "x": 1}),
            "Object contains unknown field `x` - at `$.workers[0]`",
        ),
        (
            manifest({"id": "a"}),
            "Object missing required field `url` - at `$.workers[0]`",
        ),
        (manifest(version=2), "version 2 is not known, only 1 is"),
        (
            manifest({"url": A, "id": "x"}, {"url": B, "id": "x"}),
            "workers[1].id: another worker has it too",
        ),
        (
            manifest({"url": A}, {"url": B, "id": A}),
            "workers[1].id: another worker has it too",
        ),
        (manifest({"url": A}, {"url": ""}), "workers[1].url: URL cannot be empty"),
        (
            manifest({"url": "grpc://a:1"}),
            "workers[0].url: grpc:// workers are not supported yet by smgproxy",
        ),
        (
            manifest({"url": A, "worker_type": "prefill"}),
            "workers[0].worker_type: 'prefill' is not supported yet by smgproxy",
        ),
        (
            manifest({"url": A, "bootstrap_port": 1}),
            "workers[0].bootstrap_port: is not supported yet by smgproxy",
        ),
        (
            manifest({"url": A, "id": ""}),
            "workers[0].id: must have 1 to 1024 characters",
        ),
        (
            manifest({"url": A, "model_id": "a\nb"}),
            "workers[0].model_id: must have 1 to 512 printable characters",
        ),
        (
            manifest(*({"url": f"http://h:{n}"} for n in range(1, MAX_WANTED + 2))),
            "more than 4096 workers",
        ),
    ],
)
def test_what_is_not_understood_rejects_the_whole_file(data: bytes, why: str) -> None:
    assert refusal(data) == why


def test_a_password_in_a_url_is_not_repeated() -> None:
    assert "secret" not in refusal(manifest({"url": "http://u:secret@h:1"}))


def test_deep_nesting_is_refused_not_followed() -> None:
    data = b'{"version":1,"workers":[{"url":"http://a","id":' + b"[" * 100_000
    refusal(data)
