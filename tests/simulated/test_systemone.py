"""System One of the simulated worker: smgproxy/simulated/systemone.py."""

import json
from typing import Any

import pytest

from smgproxy.simulated.bodies import BadAsk
from smgproxy.simulated.systemone import systemone

QUESTIONS: dict[str, Any] = {
    "q0": {"type": "noul", "instructions": "Is it?"},
    "q1": {
        "type": "choice",
        "instructions": "Which?",
        "criteria": {"o0": {"value": True}, "o1": {"value": "true"}},
    },
    "q2": {
        "type": "score",
        "instructions": "How much?",
        "criteria": [{"label": "low"}, {"label": "high", "description": "very"}],
    },
}


def ask(**fields: Any) -> Any:
    body = {"state": "text", "questions": QUESTIONS, "model": "m", **fields}
    return json.loads(systemone(json.dumps(body).encode(), "served", "id").body)


def test_every_question_is_answered_under_its_key_by_its_type() -> None:
    reply = ask()
    assert reply["model"] == "m"
    kinds = {key: answer["type"] for key, answer in reply["answers"].items()}
    assert kinds == {"q0": "noul", "q1": "choice", "q2": "score"}
    assert reply["usage"]["output_tokens"] == 0 < reply["usage"]["input_tokens"]


def test_the_choice_is_the_most_probable_and_the_score_the_mean() -> None:
    answers = ask()["answers"]
    chosen, odds = answers["q1"]["choice"], answers["q1"]["probabilities"]
    assert odds[chosen] == max(odds.values())
    assert answers["q2"]["score"] == answers["q2"]["probabilities"]["1"]


def test_the_same_text_gets_the_same_odds_and_another_others() -> None:
    assert ask() == ask() != ask(state="another")


@pytest.mark.parametrize(
    "questions",
    [
        {},
        {"q0": {"type": "noul"}},
        {"q0": {"type": "noul", "instructions": "?", "name": "n"}},
        {"q0": {"type": "choice", "instructions": "?", "criteria": {}}},
        {"q0": {"type": "score", "instructions": "?", "criteria": [{}] * 11}},
    ],
)
def test_what_an_engine_refuses_is_refused(questions: Any) -> None:
    with pytest.raises(BadAsk):
        ask(questions=questions)
