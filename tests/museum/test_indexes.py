"""Faults of the index by key that stores have had: what reput says of the state that each left, and does with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reput
from broker.remoting import Client
from reput.errors import DamagedStoreError
from reput.formats.index.index_file import decode_header
from reput.formats.java.hashing import index_key_hash
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.kernels import SWITCH, kernels
from support import golden, museum, opened, stores
from support.checked import assert_sound, rules_of
from support.records import START_TIME_MS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _chosen_again() -> Iterator[None]:
    """Forget the chosen kernels after a test."""
    yield
    kernels.cache_clear()


def found_keys(store: Path, **options: object) -> dict[str, list[int]]:
    """The places of all messages by key, for the keys that RocketMQ was asked for."""
    asked = {tuple(answer["key"][:2]) for answer in golden.answers("basic") if "key" in answer}
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        return {
            f"{topic} {key}": opened_store.query_message(topic, key, 1 << 20, **options).physical_offsets  # type: ignore[arg-type]
            for topic, key in sorted(asked)
        }


def test_8007_the_newest_file_is_gone(tmp_path: Path) -> None:
    """Without the newest IndexFile its messages are found all the same, from the log, and a rebuild makes the file."""
    whole = golden.unpack("crash", tmp_path)
    before = found_keys(whole)
    store = museum.make("8007", tmp_path)
    assert set(rules_of(store)) == {("leftover", "index-out-of-date")}
    assert found_keys(store) == before
    reput.rebuild(store, spark=False, only="index", config=stores.GOLDEN)
    assert found_keys(store) == before
    assert_sound(store)


def test_4463_the_newest_file_was_not_flushed(tmp_path: Path) -> None:
    """An IndexFile of zeros is damage that says what is missing, and a rebuild of the index brings it back."""
    store = museum.make("4463", tmp_path)
    assert ("damage", "index-header") in rules_of(store)
    assert ("damage", "index-out-of-date") in rules_of(store)
    reput.rebuild(store, spark=False, only="index")
    assert found_keys(store) == found_keys(golden.shared("basic"))


def test_10656_an_end_time_that_is_the_begin_time(tmp_path: Path) -> None:
    """A wrong end time in a header is damage, and no query by time leaves messages out because of it."""
    store = museum.make("10656", tmp_path)
    assert rules_of(store) == {("damage", "index-header"): 1}
    header = decode_header(stores.index_files(store)[1][1])
    assert header.end_timestamp == header.begin_timestamp
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        stored = [message.store_timestamp for message in opened.pulled(opened_store, "orders")]
        for first, since in enumerate(stored):
            found = opened_store.query_message("orders", "k", since=since, until=stored[-1])
            assert [int(one.body) for one in found] == list(range(first, len(stored)))


@pytest.mark.parametrize("kind", ["compiled", "reference"])
def test_2144_a_chain_that_turns_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A chain that leads to itself is an error, unless nothing was to be found after that item: no answer lacks any."""
    monkeypatch.setenv(SWITCH, kind)
    kernels.cache_clear()
    store = museum.make("2144", tmp_path)
    assert ("damage", "index-chain") in rules_of(store)
    wanted = found_keys(golden.shared("basic"))
    errors: set[str] = set()
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        for name, places in wanted.items():
            try:
                found = opened_store.query_message(*name.split(" ", 1), 1 << 20).physical_offsets
            except DamagedStoreError as error:
                errors.add(str(error).partition(" links to ")[0].rpartition(": ")[2].split()[0])
            else:
                assert found == places
    assert errors == {"item"}
    reput.rebuild(store, spark=False, only="index")
    assert found_keys(store) == wanted


def test_3613_keys_of_one_hash(tmp_path: Path) -> None:
    """A query compares topic and key with the record: a message of another topic with the same hash is not found."""
    assert index_key_hash(b"AaTopic#BB") == index_key_hash(b"BBTopic#BB")
    store = museum.make("3613", tmp_path)
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        assert [one.body for one in opened_store.query_message("AaTopic", "Aa")] == [b"of AaTopic"]
        assert [one.body for one in opened_store.query_message("BBTopic", "BB")] == [b"of BBTopic"]
        for topic, key in (("AaTopic", "BB"), ("BBTopic", "Aa")):
            assert list(opened_store.query_message(topic, key)) == []


def test_5174_times_within_a_second(tmp_path: Path) -> None:
    """A query by time is exact to the millisecond, though an IndexFile knows seconds."""
    store = museum.make("5174", tmp_path)
    with reput.MessageStore.open(store, read_only=True) as opened_store:
        times = [START_TIME_MS + 200 * number for number in range(1, 6)]
        for first in range(5):
            for last in range(first, 5):
                found = opened_store.query_message("orders", "k", since=times[first], until=times[last])
                assert [int(one.body) for one in found] == list(range(first, last + 1))
        assert [int(one.body) for one in opened_store.query_message("orders", "k", since=times[1] + 1)] == [2, 3, 4]


def test_8041_an_index_of_another_log(tmp_path: Path) -> None:
    """An index that ends above the log is said to; keys of new messages are found, and old ones lead nowhere."""
    store = museum.make("8041", tmp_path)
    assert ("leftover", "index-item-past-end") in rules_of(store)
    with reput.MessageStore.open(store, create=True) as opened_store:
        opened.put(opened_store, 5, "orders", keys="new")
        opened_store.reput(spark=False)
        assert len(opened_store.query_message("orders", "new")) == 5
        assert list(opened_store.query_message("orders", "k50")) == []
    assert_sound(store)


@pytest.mark.parametrize("fields", [{}, {"indexType": "K"}, {"indexType": "U"}], ids=str)
def test_10291_a_query_without_a_type(tmp_path: Path, fields: dict[str, str]) -> None:
    """A client that names no type of key finds the message, as clients before 5.5.0 and since did."""
    with reput.serve(tmp_path / "store", topics={"orders": 1}) as running, Client(running.address) as client:
        client.put("orders", properties="KEYS\x01k1\x02UNIQ_KEY\x01u1\x02")
        key = "u1" if fields.get("indexType") == "U" else "k1"
        times = {"beginTimestamp": 0, "endTimestamp": 1 << 62}
        answer = client.ask(RequestCode.QUERY_MESSAGE, topic="orders", key=key, maxNum=8, **times, **fields)
        assert answer.code == ResponseCode.SUCCESS
        assert b"k1" in answer.body
