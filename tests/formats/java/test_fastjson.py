"""The JSON that a broker writes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reput.formats.java.fastjson import parse_fastjson, parse_object_keyed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":{0:5,1:6}}', {"a": {"0": 5, "1": 6}}),
        ('{"a":{ 0 : 5,\n 1:6}}', {"a": {"0": 5, "1": 6}}),
        ('{"a":{"0":5}}', {"a": {"0": 5}}),
        ('{"x{1:2,3:4":{7:1}}', {"x{1:2,3:4": {"7": 1}}),
        ('{"q\\",8:9":{7:1}}', {'q",8:9': {"7": 1}}),
        ("{-1:2}", {"-1": 2}),
        ('{"订单@g":{0:1}}', {"订单@g": {"0": 1}}),
        ("{}", {}),
        ("", None),
        ("{0:", None),
        ("{a:1}", None),
    ],
)
def test_fastjson(text: str, value: Any) -> None:
    """Whole-number keys need no quotes; text inside strings is left alone; what is no JSON is nothing."""
    assert parse_fastjson(text.encode()) == value


QUEUES = st.fixed_dictionaries({"brokerName": st.text(max_size=9), "queueId": st.integers(0, 99), "topic": st.text()})


@given(st.lists(st.tuples(QUEUES, st.integers())))
def test_maps_with_objects_as_keys_are_read_as_they_were_written(entries: list[tuple[dict[str, Any], int]]) -> None:
    """A table by queue comes back, whatever characters the names have; its keys are the JSON texts of the queues."""
    table = ",".join(f"{json.dumps(queue)}:{value}" for queue, value in entries)
    found = parse_object_keyed(f'{{"table":{{{table}}},"more":{{1:2}}}}'.encode())
    assert found["more"] == {"1": 2}
    wanted = {json.dumps(queue, sort_keys=True): value for queue, value in entries}
    assert {json.dumps(json.loads(key), sort_keys=True): value for key, value in found["table"].items()} == wanted


def test_other_json_is_read_too() -> None:
    """Objects that are no keys stay objects; what is no JSON is None."""
    assert parse_object_keyed(b'{"a":[{"b":1},{"c":{}}]}') == {"a": [{"b": 1}, {"c": {}}]}
    assert parse_object_keyed(b"{{") is None
