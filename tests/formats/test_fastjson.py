"""The JSON that a broker writes."""

from __future__ import annotations

from typing import Any

import pytest

from reput.formats.fastjson import parse_fastjson


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
