"""The broker's names, the address in its routes, and what it makes for clients: settings of broker.conf."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import reput
from broker.remoting import Client, records
from reput.formats.log.properties import text_properties
from reput.formats.log.record import decode_message_id
from reput.formats.wire.codes import RequestCode, ResponseCode
from support.checked import assert_sound

OWN = {"broker-a", "prod", "prod_REPLY_TOPIC", "rmq_sys_REVIVE_LOG_prod", "rmq_sys_SYNC_BROKER_MEMBER_broker-a"}


def test_routes_and_messages_have_the_names_of_the_settings(tmp_path: Path) -> None:
    """`brokerName` and `brokerClusterName` are in routes, the cluster, messages, and the broker's own topics."""
    config = reput.StoreConfig(broker_name="broker-a", broker_cluster_name="prod")
    with reput.serve(tmp_path / "store", topics=["orders"], config=config) as broker, Client(broker.address) as client:
        assert client.put("orders").code == ResponseCode.SUCCESS
        route = json.loads(client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="orders").body)
        cluster = json.loads(client.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body)
        system = json.loads(client.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS).body)
        (record,) = records(client.pull("orders"))
        changed = client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, topic="prod")
    (data,), (queues,) = route["brokerDatas"], route["queueDatas"]
    assert (data["brokerName"], data["cluster"], queues["brokerName"]) == ("broker-a", "prod", "broker-a")
    assert cluster["clusterAddrTable"] == {"prod": ["broker-a"]}
    assert set(system["topicList"]) >= OWN
    assert text_properties(record.properties)["CLUSTER"] == "prod"
    assert changed.code == ResponseCode.INVALID_PARAMETER
    assert_sound(tmp_path / "store")


@pytest.mark.parametrize(
    ("setting", "name"), [("broker_name", "../up"), ("broker_cluster_name", "a b"), ("broker_cluster_name", "c" * 120)]
)
def test_a_name_that_no_topic_may_have(setting: str, name: str, tmp_path: Path) -> None:
    """RocketMQ makes topics of these names: others are refused before a store is made."""
    with pytest.raises(reput.ConfigError, match="a topic of RocketMQ's"):
        reput.serve(tmp_path / "store", config=reput.StoreConfig(**{setting: name}))
    assert not (tmp_path / "store").exists()


def test_a_broker_that_makes_no_topics() -> None:
    """With `autoCreateTopicEnable=false` a send to a topic that is not there is refused, also where TBW102 is.

    Source: `TopicConfigManager.createTopicInSendMessageMethod`.
    """
    config = reput.StoreConfig(auto_create_topic_enable=False)
    with reput.serve(topics=["orders"], config=config) as broker, Client(broker.address) as client:
        assert client.put("orders").code == ResponseCode.SUCCESS
        assert client.put("payments").code == ResponseCode.TOPIC_NOT_EXIST
        assert client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102").code == ResponseCode.TOPIC_NOT_EXIST
        broker.create_topic("payments", 1)
        assert client.put("payments").code == ResponseCode.SUCCESS


def test_a_store_that_has_the_topic_that_others_are_made_from(tmp_path: Path) -> None:
    """A store of a broker that made topics has TBW102: without the setting it is no basis any more."""
    reput.serve(tmp_path / "store").close()
    config = reput.StoreConfig(auto_create_topic_enable=False)
    with reput.serve(tmp_path / "store", config=config) as broker, Client(broker.address) as client:
        assert client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="TBW102").code == ResponseCode.SUCCESS
        assert client.put("orders").code == ResponseCode.TOPIC_NOT_EXIST


def test_a_broker_that_makes_no_groups() -> None:
    """With `autoCreateSubscriptionGroup=false` a group that is not there reads nothing; tools still do.

    Source: `SubscriptionGroupManager.findSubscriptionGroupConfig`.
    """
    config = reput.StoreConfig(auto_create_subscription_group=False)
    with reput.serve(topics=["orders"], config=config) as broker, Client(broker.address) as client:
        client.put("orders")
        assert client.heartbeat("c1", "team", orders="*").code == ResponseCode.SUCCESS
        members = client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="team")
        assert members.code != ResponseCode.SUCCESS
        refused = client.pull("orders", consumerGroup="team")
        assert refused.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert client.pull("orders", consumerGroup="TOOLS_CONSUMER").code == ResponseCode.SUCCESS
        client.make_group("team")
        assert client.pull("orders", consumerGroup="team").code == ResponseCode.SUCCESS


def test_a_client_behind_a_port_mapping_gets_the_address_that_it_reaches() -> None:
    """With `advertise` routes and message ids name that address, whatever the client has dialled."""
    with (
        reput.serve(topics=["orders"], advertise="192.0.2.7:19876") as broker,
        Client(broker.address) as client,
    ):
        route = json.loads(client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="orders").body)
        found = decode_message_id(client.put("orders").fields["msgId"])
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "192.0.2.7:19876"}
    assert found is not None
    assert str(found[0]) == "192.0.2.7:19876"


def test_an_advertised_name_is_in_routes_alone() -> None:
    """Message ids have no names: they keep the address of the broker, and the port of the name."""
    with reput.serve(topics=["orders"], advertise="mq.example:9876") as broker, Client(broker.address) as client:
        route = json.loads(client.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="orders").body)
        found = decode_message_id(client.put("orders").fields["msgId"])
    assert route["brokerDatas"][0]["brokerAddrs"] == {"0": "mq.example:9876"}
    assert found is not None
    assert str(found[0]) == "127.0.0.1:9876"


@pytest.mark.parametrize("advertise", ["", "host", "host:0", 9876])
def test_an_advertised_address_that_is_none(advertise: object, tmp_path: Path) -> None:
    """It is refused before a store is made."""
    with pytest.raises(reput.ConfigError, match="give host:port"):
        reput.serve(tmp_path / "store", advertise=advertise)  # type: ignore[arg-type]
    assert not (tmp_path / "store").exists()
