"""The OpenAI Python client against a simulated worker."""

import math

import openai
import pytest

from smgproxy.simulated.server import SimulatedServer
from tests.simulated.serving import serve


def client_of(url: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)


def test_chat_stream_equals_the_plain_answer() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with client_of(url) as client:
            plain = await client.chat.completions.create(
                model="sim-model", messages=[{"role": "user", "content": "hi"}], n=2
            )
            stream = await client.chat.completions.create(
                model="sim-model",
                messages=[{"role": "user", "content": "hi"}],
                n=2,
                stream=True,
                stream_options={"include_usage": True},
            )
            texts, usage = ["", ""], None
            async for chunk in stream:
                usage = chunk.usage or usage
                for choice in chunk.choices:
                    texts[choice.index] += choice.delta.content or ""
            assert texts == [choice.message.content for choice in plain.choices]
            assert usage == plain.usage

    serve(scenario)


def test_completion_stream_equals_the_plain_answer() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with client_of(url) as client:
            plain = await client.completions.create(
                model="sim-model", prompt="hi", max_tokens=9
            )
            stream = await client.completions.create(
                model="sim-model", prompt="hi", max_tokens=9, stream=True
            )
            text = "".join([chunk.choices[0].text async for chunk in stream])
            assert text == plain.choices[0].text
            assert plain.choices[0].finish_reason == "length"
            assert plain.usage is not None and plain.usage.completion_tokens == 9

    serve(scenario)


def test_embeddings_come_through_the_clients_base64() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with client_of(url) as client:
            coded = await client.embeddings.create(
                model="sim-model", input=["hi", "ho"]
            )
            plain = await client.embeddings.create(
                model="sim-model", input=["hi", "ho"], encoding_format="float"
            )
            for one, other in zip(coded.data, plain.data):
                assert all(map(math.isclose, one.embedding, other.embedding))
            assert len(coded.data) == 2

    serve(scenario)


def test_models_are_listed() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with client_of(url) as client:
            models = await client.models.list()
            assert [model.id for model in models.data] == ["sim-model"]

    serve(scenario)


def test_errors_map_to_the_clients_exceptions() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with client_of(url) as client:
            with pytest.raises(openai.BadRequestError, match="messages"):
                await client.chat.completions.create(model="m", messages=[])
            with pytest.raises(openai.NotFoundError):
                await client.files.list()

    serve(scenario)
