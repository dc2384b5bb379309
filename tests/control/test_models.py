from smgproxy.fleet.worker import WorkerState
from tests.control.stage import A, B, Stage


def test_models_are_listed_in_the_contracts_form() -> None:
    it = Stage()
    it.add()
    assert it.json("GET", "/v1/models") == {
        "object": "list",
        "data": [
            {"id": "m1", "object": "model", "created": 0, "owned_by": "self_hosted"}
        ],
    }


def test_each_canonical_id_is_listed_once_and_no_alias() -> None:
    it = Stage()
    it.add(A, models=[{"id": "x", "aliases": ["y"]}, {"id": "z"}])
    it.add(B, models=[{"id": "x"}])
    listed = it.json("GET", "/v1/models")["data"]
    assert [one["id"] for one in listed] == ["x", "z"]


def test_a_model_whose_workers_are_down_stays_listed() -> None:
    it = Stage()
    it.registry.set_state(it.add(), WorkerState.FAILED)
    assert it.ask("GET", "/v1/models").status == 200


def test_without_workers_the_answer_is_503_in_plain_text() -> None:
    reply = Stage().ask("GET", "/v1/models")
    assert (reply.status, reply.body) == (503, b"No models available")
    assert reply.content_type == b"text/plain; charset=utf-8"
