"""Which profile a name selects, and what a profile may declare.

Their rules, defaults and rewrites stand in tests/vectors/profiles.jsonl.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import ujson

from smgproxy.api import profiles
from smgproxy.api.profiles import select
from tests.api.reading import MESSAGES, body_of, read, refusal


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("m", "openai"),
        ("", "openai"),
        ("THUDM/chatglm3-6b", "openai"),
        ("deepseek-ai/DeepSeek-R1", "openai"),
        ("moonshotai/Kimi-K2-Instruct", "kimi"),
        ("/models/kimi-k3", "kimi_k3"),
        ("moonshotai/Kimi-K3", "kimi_k3"),
        ("MiniMaxAI/MiniMax-M2", "minimax"),
        ("zai-org/GLM-5.3-FP8", "glm-5.3"),
        ("zai-org/GLM-4.7", "glm"),
        ("zai-org/kimi-k3", "zai"),
        ("x/deepseek-v4-flash/y", "deepseek_v4"),
        ("deepseek-v4.1-flash", "deepseek_v4.1"),
        ("deepseek-v4.1-flash-2", "openai"),
        ("kimi" * 100_000, "kimi"),
    ],
)
def test_a_segment_of_the_name_selects(model: str, name: str) -> None:
    assert select(model).name == name


ACME = """
from smgproxy.api.profiles.profile import Profile
from smgproxy.core.errors import InvalidField

def check(request):
    if request.seed is not None:
        raise InvalidField("seed: acme has none")

def rewrite(request, body, edits):
    edits["acme"] = {"on": b"true"}

ACME = Profile("acme", family="acme", markers=("acme",), rules=(check,),
               defaults={"n": b"1"}, rewrites=(rewrite,))
PROFILES = (ACME,)
"""


def test_a_file_more_is_a_profile_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "acme.py").write_text(ACME)
    monkeypatch.setattr(profiles, "__path__", [*profiles.__path__, str(tmp_path)])
    monkeypatch.setattr(profiles, "_MARKERS", profiles._declared())
    sys.modules.pop("smgproxy.api.profiles.acme")
    assert refusal(body_of("org/Acme-1", seed=1)) == "seed: acme has none"
    body = read(body_of("org/Acme-1", acme={"z": 1})).body
    assert body.endswith(b'"acme":{"z":1,"on":true},"n":1}')


def test_the_name_as_sent_selects_and_not_the_canonical_one() -> None:
    body = read(body_of("plain", stream=True), aliases={"plain": "kimi-k2"}).body
    assert b"include_usage" not in body
    body = read(body_of("kimi-k2", stream=True), aliases={"kimi-k2": "m"}).body
    assert b'"stream_options":{"include_usage":true}' in body


def test_only_streams_of_minimax_are_resliced() -> None:
    assert read(body_of("abab7", stream=True)).is_resliced
    assert not read(body_of("abab7")).is_resliced
    assert not read(body_of("m", stream=True)).is_resliced


def test_an_inserted_option_stands_behind_the_clients_own() -> None:
    body = body_of("kimi-k2")[:-1] + b',"stream":true,"stream_options":{ "z":1.0 } }'
    assert b'"stream_options":{"z":1.0,"include_usage":true}' in read(body).body


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            body_of("kimi-k3", top_p=1.0),
            "top_p: 1 is not allowed for this model, must be 0.95",
        ),
        (
            body_of("glm-4.5", thinking={"type": "adaptive"}),
            "__all__: invalid thinking.type: only enabled or disabled is allowed for "
            "this model",
        ),
        (
            body_of("deepseek-v4-pro", reasoning_effort=50),
            "reasoning_effort: '50' is not allowed for this model, must be one of "
            "none, minimal, low, medium, high, xhigh, max",
        ),
    ],
)
def test_a_profiles_refusal_names_field_fault_and_choice(
    body: bytes, message: str
) -> None:
    assert refusal(body) == message


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
def test_kimi_takes_null_tools_of_a_message_for_none(role: str) -> None:
    message = {"role": role, "content": "x", "tools": None}
    body = body_of("kimi-k2", messages=[message, *MESSAGES])
    forwarded = ujson.loads(read(body).body)
    assert forwarded["messages"][0].get("tools") is None
