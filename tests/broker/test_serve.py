"""`reput.serve` and `reput serve`: start, stop, and what they refuse."""

from __future__ import annotations

import ipaddress
import json
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import reput
from broker.remoting import Client, send_fields
from broker.test_broker import batch
from reput.broker import serve, server
from reput.broker.state.locks import LOCK_LIFE_S, QueueLocks
from reput.broker.wire.listener import listen
from reput.cli.main import cli
from reput.errors import ConfigError
from reput.formats.wire.bodies import QueueName
from reput.formats.wire.codes import RequestCode, ResponseCode
from reput.kernels import warm
from reput.pipeline.spark.listener import ProgressListener
from reput.store.metadata.tables import Table
from support import golden, stores
from support.checked import assert_sound
from support.growing import CatchUpThatWaits
from support.metadata import metadata_of
from support.waiting import wait_until


def test_a_temporary_store_goes_with_its_broker() -> None:
    """Without a path the store is temporary; a second close does nothing."""
    broker = reput.serve(topics={"orders": 2})
    path = broker.path
    with Client(broker.address) as client:
        assert client.put("orders").code == ResponseCode.SUCCESS
    assert path.exists()
    broker.close()
    broker.close()
    assert not path.exists()


def test_a_broker_left_the_indexes_that_it_was_building_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A close waits for the indexes that are being built, builds the rest, and leaves no thread, error or `abort`."""
    monkeypatch.setattr(server, "INDEX_BYTES", 0)
    monkeypatch.setattr(server, "_SWEEP_S", 0.01)
    build = CatchUpThatWaits(monkeypatch)
    broker = reput.serve(tmp_path / "store", topics=["orders"])
    with Client(broker.address) as client:
        assert client.put("orders").code == ResponseCode.SUCCESS
        build.has_begun.wait()
        assert client.put("orders").code == ResponseCode.SUCCESS
    with ThreadPoolExecutor(1) as threads:
        closing = threads.submit(broker.close)
        with pytest.raises(TimeoutError):
            closing.result(1)
        build.may_go_on.set()
        closing.result()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("reput-broker-indexes")]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert not (tmp_path / "store" / "abort").exists()
    assert_sound(tmp_path / "store")


def test_a_busy_broker_leaves_indexes_for_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy broker builds no indexes until it is idle, or until too much of the log has none."""
    monkeypatch.setattr(server, "INDEX_BYTES", 0)
    monkeypatch.setattr(server, "_SWEEP_S", 0.01)
    for then, value in (("_BUSY", 1.0), ("MOST_INDEX_BYTES", 0)):
        with monkeypatch.context() as patched, reput.serve(topics=["orders"]) as broker:
            looks: list[float] = []
            patched.setattr(server.LineBound, "end_second", lambda _, looks=looks, **__: looks.append(0))
            patched.setattr(server, "_BUSY", -1.0)
            with Client(broker.address) as client:
                assert client.put("orders").code == ResponseCode.SUCCESS
            begun, store = len(looks), broker._store
            wait_until(lambda looks=looks, begun=begun: len(looks) > begun + 3)
            assert store.behind_bytes > 0
            patched.setattr(server, then, value)
            wait_until(lambda store=store: store.behind_bytes == 0)


def test_nothing_heavy_is_loaded_before_it_listens(tmp_path: Path) -> None:
    """A broker listens before Spark, numba and Arrow are loaded."""
    code = (
        "import sys, reput.broker.serve as serve\n"
        "serve.RunningBroker.warm = lambda self: None\n"
        f"with serve.serve({str(tmp_path / 'store')!r}, topics=['orders']):\n"
        "    print('loaded', *[name for name in ('numba', 'pyarrow', 'pyspark') if name in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.split() == ["loaded"]


def test_brokers_that_begin_and_end_at_once_load_kernels_one_by_one(tmp_path: Path) -> None:
    """Brokers of one process that start together, and end before their kernels are loaded, work without an error."""
    code = (
        "import threading, reput\n"
        "def one(name):\n"
        f"    with reput.serve({str(tmp_path)!r} + name, topics=['orders']):\n"
        "        pass\n"
        "threads = [threading.Thread(target=one, args=(f'/{number}',)) for number in range(3)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert "Traceback" not in run.stderr


def test_the_command_is_ready_before_anything_heavy_is_loaded(tmp_path: Path) -> None:
    """Routes are answered before kernels, Arrow, Spark or SQL are imported; `make bench-broker` measures the start."""
    code = (
        "import os, signal, sys, reput.broker.serve as serve\n"
        "from reput.cli.main import main\n"
        "def ready(broker):\n"
        "    print('loaded', *[name for name in ('numba', 'pyarrow', 'pyspark', 'sqlglot') if name in sys.modules])\n"
        "    sys.stdout.flush()\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "serve.RunningBroker.warm = ready\n"
        f"sys.argv[1:] = ['serve', {str(tmp_path / 'store')!r}, '--port', '0', '--topic', 'orders']\n"
        "main()\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.splitlines()[0] == "loaded", run.stdout


@pytest.mark.parametrize("cached", [True, False])
def test_kernels_are_compiled_before_a_broker_listens(tmp_path: Path, cached: bool, monkeypatch: Any) -> None:
    """Without a cache of kernels a broker compiles them before it listens, else it loads them meanwhile."""
    steps: list[str] = []

    def listening(*args: Any, **options: Any) -> socket.socket:
        steps.append("listen")
        return listen(*args, **options)

    monkeypatch.setattr(serve, "are_cached", lambda: cached)
    monkeypatch.setattr(serve, "listen", listening)
    monkeypatch.setattr(serve.RunningBroker, "warm", lambda _self: None)
    monkeypatch.setattr(warm, "warm_filter_kernels", lambda: steps.append("compile"))
    with reput.serve(tmp_path / "store") as broker, Client(broker.address) as client:
        assert client.put("orders").code == ResponseCode.SUCCESS
    assert steps == (["listen"] if cached else ["compile", "listen"])


def test_clients_do_not_wait_for_the_compiled_kernels(tmp_path: Path) -> None:
    """While the kernels are loaded, here without end, a broker stores messages and gives them out, filtered too."""
    code = (
        "import sys, threading\n"
        "import reput\n"
        "from broker.remoting import Client, bodies\n"
        "from reput.broker import serve\n"
        "serve.RunningBroker._warm_kernels = lambda _: ended.wait()\n"
        "ended = threading.Event()\n"
        f"with reput.serve({str(tmp_path / 'store')!r}, topics={{'orders': 1}}) as broker:\n"
        "    with Client(broker.address) as client:\n"
        "        client.put('orders', b'a', properties='TAGS\\x01t\\x02n\\x015\\x02')\n"
        "        client.put('orders', b'b')\n"
        "        for further in ({}, {'subscription': 't'}, {'subscription': 'n > 3', 'expressionType': 'SQL92'}):\n"
        "            print(bodies(client.pull('orders', **further)))\n"
        "    print('numba' in sys.modules)\n"
        "    ended.set()\n"
    )
    folder = Path(__file__).parents[1]
    words = [sys.executable, "-c", code]
    run = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.splitlines() == ["[b'a', b'b']", "[b'a']", "[b'a']", "False"]
    assert_sound(tmp_path / "store")


def test_a_second_broker_waited_for_the_kernels_of_the_first(tmp_path: Path) -> None:
    """A broker is ready while another one of its process still loads the compiled kernels."""
    code = (
        "import threading, reput\n"
        "from broker.remoting import Client, bodies\n"
        "from reput import kernels\n"
        "from reput.broker import serve\n"
        "loading, ended = threading.Event(), threading.Event()\n"
        "def load(_):\n"
        "    with kernels._LOADING[kernels.COMPILED]:\n"
        "        import numba\n"
        "        loading.set()\n"
        "        ended.wait()\n"
        "serve.RunningBroker._warm_kernels, serve.are_cached = load, lambda: True\n"
        f"with reput.serve({str(tmp_path / 'first')!r}):\n"
        "    loading.wait()\n"
        f"    with reput.serve({str(tmp_path / 'second')!r}, topics=['orders']) as broker:\n"
        "        with Client(broker.address) as client:\n"
        "            client.put('orders', b'a')\n"
        "            print(bodies(client.pull('orders')))\n"
        "        ended.set()\n"
    )
    folder, words = Path(__file__).parents[1], [sys.executable, "-c", code]
    run = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.splitlines() == ["[b'a']"]
    assert_sound(tmp_path / "second")


@pytest.mark.parametrize("address", ["10.1.2.3", "fd00::7", None])
def test_a_message_had_another_id_in_its_answer_than_in_its_record(address: str | None) -> None:
    """Ids name brokerIP1, as records do, on a broker that listens at all addresses, too; 127.0.0.1 without it."""
    config = reput.StoreConfig(broker_ip1=address)
    with reput.serve(topics=["orders"], host="0.0.0.0", allow_remote=True, config=config) as broker:
        with Client(broker.address) as client:
            body, fields = batch((b"a", ""), (b"b", "")), send_fields("orders", m=True)
            sent = [client.put("orders"), client.ask(RequestCode.SEND_BATCH_MESSAGE, body, **fields)]
            ids = ",".join(one.fields["msgId"] for one in sent).split(",")
        with reput.MessageStore.open(broker.path, read_only=True) as store:
            assert [one.message_id for one in store.get_message("orders", 0, 0)] == ids
        wanted = ipaddress.ip_address(address or "127.0.0.1")
        assert ids[0].startswith(wanted.packed.hex().upper())


def test_a_broker_that_cannot_serve_says_so(tmp_path: Path, monkeypatch: Any) -> None:
    """An error of the loop's thread before it serves is the caller's error, and the store is let go of."""

    async def fails(_broker: serve.RunningBroker) -> None:
        raise OSError(98, "no")

    monkeypatch.setattr(serve.RunningBroker, "_serve", fails)
    with pytest.raises(OSError, match="no"):
        reput.serve(tmp_path / "store")
    reput.MessageStore.open(tmp_path / "store").close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"host": "0.0.0.0"}, "allow_remote"),
        ({"host": "broker.example"}, "IPv4"),
        ({"host": "192.0.2.1", "allow_remote": True}, "Give an address of this machine"),
        ({"host": "::1"}, "IPv4"),
        ({"port": 70_000}, "port 70000"),
        ({"topics": {"../up": 1}}, "illegal characters"),
        ({"topics": {"orders": 0}}, "0 queues"),
        ({"topics": {"orders": "4"}}, "whole numbers"),
        ({"topics": "orders"}, "names in a list"),
        ({"topics": 4}, "names in a list"),
        ({"path": ""}, "the store's folder"),
        ({"path": 7}, "the store's folder"),
        ({"port": "9876"}, "a whole number"),
        ({"port": True}, "a whole number"),
        ({"metrics_port": "9877"}, "a whole number"),
        ({"host": None}, "an IPv4 address"),
        ({"host": "0.0.0.0", "allow_remote": "no"}, "True or False"),
        ({"access_keys": ["key"]}, "the secret of each key"),
        ({"master": "local"}, r"--follow \(follow=True\)"),
        ({"config": 7}, "StoreConfig"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, object], words: str) -> None:
    """A wrong argument is a ConfigError that says what to give."""
    with pytest.raises(reput.ConfigError, match=words):
        reput.serve(**arguments)  # type: ignore[arg-type]


def test_spark_without_a_follower_is_refused(tmp_path: Path) -> None:
    """--spark is about the follower: without --follow the command says so, and makes no store."""
    found = CliRunner().invoke(cli, ["serve", str(tmp_path / "store"), "--spark"])
    assert (found.exit_code, "give --follow, too" in found.output) == (2, True)
    assert not (tmp_path / "store").exists()


def test_a_port_in_use_is_refused() -> None:
    """A port that somebody has is named."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(reput.ConfigError, match="cannot listen on"):
        reput.serve(port=taken.getsockname()[1])


def test_a_store_that_is_held_is_refused(tmp_path: Path) -> None:
    """A second broker on a store is refused, and the first goes on."""
    with reput.serve(tmp_path / "store") as broker:
        with pytest.raises(reput.StoreLockedError):
            reput.serve(tmp_path / "store")
        with Client(broker.address) as client:
            assert client.put("orders").code == ResponseCode.SUCCESS


@pytest.mark.parametrize("stage", ["decode", "publish"])
def test_a_broker_and_a_rebuild_refuse_one_another(tmp_path: Path, stage: str) -> None:
    """A rebuild of a store that is served is refused by name, and a broker on a store under rebuild, too."""
    path, seen = tmp_path / "store", []
    with reput.serve(path, topics=["orders"], config=stores.SMALL) as broker, Client(broker.address) as client:
        assert client.put("orders").code == ResponseCode.SUCCESS
        with pytest.raises(reput.StoreLockedError, match=r"is at work on this store|this process"):
            reput.rebuild(path, spark=False)
        assert client.put("orders").code == ResponseCode.SUCCESS

    class Serving(ProgressListener):
        """Tries to serve the store at a stage of its rebuild."""

        def stage(self, name: str, total_bytes: int) -> None:  # noqa: ARG002 - as listeners have it
            """Try it once."""
            if name == stage and not seen:
                with pytest.raises(reput.StoreLockedError) as found:
                    reput.serve(path)
                seen.append(str(found.value))

    reput.rebuild(path, spark=False, config=stores.SMALL, listener=Serving())
    assert "rebuild" in seen[0]
    with reput.serve(path, config=stores.SMALL) as broker, Client(broker.address) as client:
        assert client.put("orders").code == ResponseCode.SUCCESS
    assert_sound(path, stores.SMALL)


def test_a_damaged_configuration_is_refused(tmp_path: Path) -> None:
    """A value of a wrong type in topics.json is named with its topic, and the store is released."""
    with reput.serve(tmp_path / "store", topics=["orders"]):
        pass
    path = tmp_path / "store" / "config" / "topics.json"
    for file in (path, path.with_name("topics.json.bak")):
        text = file.read_text()
        file.write_text(text.replace('"perm":6', '"perm":"all"'))
    with pytest.raises(reput.DamagedStoreError, match=r"topics\.json.*perm is 'all'"):
        reput.serve(tmp_path / "store")
    path.write_text(text)
    with reput.serve(tmp_path / "store"):
        pass


def test_a_damaged_topics_file_is_refused(tmp_path: Path) -> None:
    """A topics.json that is no JSON is not written over: its backup counts, and without one there is an error."""
    with reput.serve(tmp_path / "store", topics=["orders"]):
        pass
    path = tmp_path / "store" / "config" / "topics.json"
    path.write_text("{broken")
    with reput.serve(tmp_path / "store") as broker, Client(broker.address) as client:
        assert client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102").code == ResponseCode.SUCCESS
    path.write_text("{broken")
    path.with_name("topics.json.bak").write_text("{broken")
    with pytest.raises(reput.DamagedStoreError, match=r"topics\.json"):
        reput.serve(tmp_path / "store")


@pytest.mark.behaviour(
    "RocksDBTopicConfigManagerTest.testPutTopicConfig",
    "RocksDBSubscriptionGroupManagerTest.testPutSubscriptionGroupConfigIfAbsent",
    "RocksdbTopicConfigTransferTest.addTopicLoadRocksdbTopicConfigManager",
    "RocksdbGroupConfigTransferTest.addGroupLoadRocksdbSubscriptionGroupManager",
)
@pytest.mark.parametrize("name", ["json", "config-v1", "config-v1-single", "config-v2"])
def test_topics_groups_and_offsets_are_kept_where_the_broker_does(name: str, tmp_path: Path) -> None:
    """Topics, groups and offsets of clients are in the store's JSON or RocksDB, beside those of the broker."""
    store = golden.unpack(name, tmp_path)
    before = {table: metadata_of(store).read(table) for table in Table}
    with reput.serve(store, topics={"served": 3}) as broker, Client(broker.address) as client:
        asked = {"consumerGroup": "readers", "topic": "served", "queueId": 2, "commitOffset": 0}
        client.make_group("readers")
        assert client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, **asked).code == ResponseCode.SUCCESS
    after = {table: metadata_of(store).read(table) for table in Table}
    for table, content in after.items():
        assert content.place == before[table].place
        assert {key: content.values[key] for key in before[table].values} == before[table].values
    assert after[Table.TOPICS].values["served"]["writeQueueNums"] == 3
    assert after[Table.GROUPS].values["readers"]["groupName"] == "readers"
    assert after[Table.OFFSETS].values["served@readers"] == {2: 0}
    assert_sound(store)


def test_a_store_whose_settings_contradict_its_topics_is_refused(tmp_path: Path) -> None:
    """Topics in a place that a broker with the settings does not read are left alone, and the store is released."""
    store = golden.unpack("config-v1", tmp_path)
    for _ in range(2):
        with pytest.raises(reput.ConfigError, match=r"configManagerVersion=v2.*Nothing was changed"):
            reput.serve(store, config=reput.StoreConfig(config_manager_version="v2"))
    assert reput.info(store).held_by == "nobody"


def test_the_command_serves_until_it_is_stopped(tmp_path: Path) -> None:
    """`reput serve` says its address, serves, and ends with 0 after SIGTERM; the store is sound.

    A command that would write meanwhile is refused with the name and the id of the process.
    """
    store = tmp_path / "store"
    words = [sys.executable, "-m", "reput", "serve", str(store), "--port", "0", "--topic", "orders:3", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        with Client(said["address"]) as client:
            assert client.put("orders", queue_id=2).code == ResponseCode.SUCCESS
            client.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with pytest.raises(ConnectionResetError):
                client.receive()
        with pytest.raises(reput.StoreLockedError) as held:
            reput.MessageStore.open(store)
        assert f"`reput serve`, process {process.pid}, is at work on this store. Stop it, or wait" in str(held.value)
        looked = subprocess.run([*words[:3], "info", str(store)], capture_output=True, text=True, check=True)
        assert f"held by     `reput serve`, process {process.pid}" in looked.stdout
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"HTTP" in errors
    assert_sound(store)


def test_a_lock_that_is_not_renewed_is_free() -> None:
    """After a minute without renewal another client gets the queue."""
    now = 0.0
    locks = QueueLocks(lambda: now)
    queue = QueueName("reput", 0, "orders")
    assert locks.lock("g", "a", [queue]) == [queue]
    now = LOCK_LIFE_S
    assert locks.lock("g", "b", [queue]) == []
    now += 0.1
    assert locks.lock("g", "b", [queue]) == [queue]
    now += 2 * LOCK_LIFE_S
    locks.forget_expired()
    assert locks.lock("g", "a", [queue]) == [queue]


def test_ordered_groups_are_made_at_the_start(tmp_path: Path) -> None:
    """A group that is named gets messages in order, and keeps its other settings; other names are refused."""
    for _ in range(2):
        with reput.serve(tmp_path / "s", ordered_groups=["billing"]) as broker:
            config = broker._broker.groups.get("billing")
            assert config["consumeMessageOrderly"] is True
            broker._broker.groups.update("billing", {"groupName": "billing", "retryMaxTimes": 3})
    assert config["retryMaxTimes"] == 3
    with pytest.raises(ConfigError, match="ordered_groups='billing': give names in a list"):
        reput.serve(ordered_groups="billing")
    with pytest.raises(ConfigError, match=r"the specified group\[a b\]"):
        reput.serve(ordered_groups=["a b"])


def test_a_topic_named_at_a_start_lost_queues_and_its_permission(tmp_path: Path) -> None:
    """A name alone keeps what the topic has; a number of queues changes that alone."""
    with reput.serve(tmp_path / "s", topics={"orders": 16}) as broker:
        fields: dict[str, object] = {
            "topic": "orders",
            "defaultTopic": "TBW102",
            "readQueueNums": 16,
            "writeQueueNums": 16,
            "perm": 4,
        }
        with Client(broker.address) as client:
            answer = client.ask(
                RequestCode.UPDATE_AND_CREATE_TOPIC, **fields, topicFilterType="SINGLE_TAG", order=False
            )
            assert answer.code == ResponseCode.SUCCESS
    for topics, queues in ((["orders"], 16), ({"orders": 2}, 2), ({"orders": (None, "FIFO")}, 2)):
        with reput.serve(tmp_path / "s", topics=topics) as broker:
            config = broker._broker.topics.get("orders")
            assert (config["readQueueNums"], config["writeQueueNums"], config["perm"]) == (queues, queues, 4)
