"""Bodies made of the OpenAPI description, and broken ones: never anything but a 400."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.api.endpoints import INFERENCE
from smgproxy.api.openapi import document
from smgproxy.core.errors import BadBody, InvalidField
from tests.api.reading import read

SCHEMAS: dict[str, Any] = document()["components"]["schemas"]
JUNK: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=5,
)
MODELS = st.sampled_from(
    ["m", "kimi-k2", "kimi-k3", "MiniMax-M2", "glm-4.6", "glm-5.3"]
    + ["deepseek-v4-pro", "deepseek-v4.1-flash"]
)
TEXTS = st.sampled_from(["", "a", "f", "none", "high", "50", "{}", "é", "function"])


def values_of(schema: dict[str, Any]) -> Any:
    """Values that a schema describes."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return st.deferred(lambda: values_of(SCHEMAS[name]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    if "anyOf" in schema:
        return st.one_of([values_of(each) for each in schema["anyOf"]])
    kind = schema.get("type")
    if kind == "object" and "properties" in schema:
        return objects_of(schema)
    if kind == "object":
        inner = values_of(schema.get("additionalProperties", {}))
        return st.dictionaries(TEXTS, inner, max_size=2)
    if kind == "array":
        least, most = schema.get("minItems", 0), schema.get("maxItems", 3)
        return st.lists(values_of(schema["items"]), min_size=least, max_size=most)
    if kind == "integer":
        return st.integers(schema.get("minimum", -9), schema.get("maximum", 99))
    if kind == "number":
        return st.floats(schema.get("minimum", -9), schema.get("maximum", 9))
    simple = {"string": TEXTS, "boolean": st.booleans(), "null": st.none()}
    return simple.get(str(kind), JUNK)


def objects_of(schema: dict[str, Any]) -> Any:
    fields = {name: values_of(each) for name, each in schema["properties"].items()}
    if "model" in fields:
        fields["model"] = MODELS
    needed = schema.get("required", [])
    return st.fixed_dictionaries(
        {name: fields[name] for name in needed},
        optional={name: each for name, each in fields.items() if name not in needed},
    )


@cache
def bodies_of(name: str, is_broken: bool) -> Any:
    [endpoint] = [one for one in INFERENCE if one.name == name][:1]
    bodies = values_of(SCHEMAS[endpoint.schema.kind.__name__])
    if not is_broken:
        return bodies
    names = st.sampled_from(sorted(endpoint.schema.kind.__struct_fields__))
    return st.builds(lambda body, key, junk: {**body, key: junk}, bodies, names, JUNK)


NAMES = list(dict.fromkeys(endpoint.name for endpoint in INFERENCE))


@pytest.mark.parametrize("is_broken", [False, True])
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_a_body_is_read_or_refused(name: str, is_broken: bool, data: Any) -> None:
    body = json.dumps(data.draw(bodies_of(name, is_broken)), allow_nan=True).encode()
    try:
        call = read(body, name)
    except (BadBody, InvalidField) as error:
        assert error.message
    else:
        json.loads(call.body)
