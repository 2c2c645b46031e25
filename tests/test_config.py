"""Settings: Java's properties format, RocketMQ's names, and what is refused."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

from reput.config import StoreConfig, parse_delay_levels, parse_properties
from reput.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a=1\nb = 2\n  c:3\nd : 4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("# a=1\n! b=2\n\n   \n  # c=3", {}),
        ("a=1\r\nb=2\r\n", {"a": "1", "b": "2"}),
        ("a=1 \\\n   2\nb=3", {"a": "1 2", "b": "3"}),
        ("a=x\\\\\nb=3", {"a": "x\\", "b": "3"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("a b", {"a": "b"}),
        ("a=b=c", {"a": "b=c"}),
        ("a=http://x:1", {"a": "http://x:1"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\:b=c", {"a:b": "c"}),
        ("a=\\u8ba2\\t\\n", {"a": "订\t\n"}),
        ("a=订单", {"a": "订单"}),
        ("a=1\na=2", {"a": "2"}),
        ("path=C\\:\\\\store", {"path": "C:\\store"}),
        ("a=1\u2028b=2", {"a": "1\u2028b=2"}),
        ("a\u2028=1", {"a\u2028": "1"}),
        ("a=\u00a01", {"a": "\u00a01"}),
        ("=b", {"": "b"}),
        ("\\", {}),
        ("a=1\nb=2\\", {"a": "1", "b": "2"}),
        ("a=1\\\n#2", {"a": "1#2"}),
    ],
)
def test_properties(text: str, wanted: dict[str, str]) -> None:
    """Comments, separators, continued lines and escapes are as Java reads them."""
    assert parse_properties(text) == wanted


def test_names_are_the_peers() -> None:
    """Every setting is known under RocketMQ's own name, odd capitals included."""
    found = StoreConfig.from_properties(
        {
            "storePathRootDir": "/r", "storePathCommitLog": "/c", "mappedFileSizeCommitLog": "1",
            "mappedFileSizeConsumeQueue": "2", "maxHashSlotNum": "3", "maxIndexNum": "4", "messageDelayLevel": "1s",
            "messageIndexEnable": "true", "indexRocksDBEnable": "true", "indexFileWriteEnable": "true",
            "indexFileReadEnable": "true", "forceVerifyPropCRC": "false", "checkCRCOnRecover": "TRUE", "storeType": "x",
            "enableConsumeQueueExt": "false", "rocksdbCQDoubleWriteEnable": "false", "enableLmq": "false",
            "enableMultiDispatch": "false", "enableDLegerCommitLog": "false", "brokerName": "broker-a",
            "maxMessageSize": "5", "enabledAppendPropCRC": "true", "flushDiskType": "SYNC_FLUSH",
            "flushIntervalCommitLog": "6", "flushCommitLogLeastPages": "7", "flushCommitLogThoroughInterval": "8",
            "syncFlushTimeout": "9", "transientStorePoolEnable": "true", "commitIntervalCommitLog": "10",
            "commitCommitLogLeastPages": "11", "deleteWhen": "04", "fileReservedTime": "12",
            "diskMaxUsedSpaceRatio": "13", "diskSpaceCleanForciblyRatio": "14", "diskSpaceWarningLevelRatio": "15",
            "cleanFileForciblyEnable": "false", "deleteFileBatchMax": "16", "cleanResourceInterval": "17",
            "tailMaxEntries": "18", "mapperFileSizeBatchConsumeQueue": "19", "mappedFileSizeConsumeQueueExt": "20",
            "enableCalcFilterBitMap": "true", "maxErrorRateOfBloomFilter": "21", "expectConsumerNumUseFilter": "22",
            "brokerIP1": "10.1.2.3", "listenPort": "23", "autoMessageVersionOnTopicLen": "false",
            "commitCommitLogThoroughInterval": "0", "flushConsumerOffsetInterval": "24",
            "consumerOffsetUpdateVersionStep": "25", "deleteExpired": "true", "forceSetting": "true",
            "useSingleRocksDBForAllConfigs": "true", "configManagerVersion": "v2",
            "maxDecodedBodySize": "26", "readOnlyCommitLogStorePaths": "/d",
            "useSeparateStorePathForRocksdbCQ": "true", "combineCQLoadingCQTypes": "default",
            "combineCQPreferCQType": "default", "combineAssignOffsetCQType": "default",
            "combineCQUseRocksdbForLmq": "true", "rocksdbCQSelectiveDoubleWriteEnable": "true", "minLiteTTl": "27",
            "transactionTimeOut": "28", "transactionCheckInterval": "29", "transactionCheckMax": "30",
            "timerMaxDelaySec": "31", "recallMessageEnable": "true", "brokerClusterName": "prod",
            "autoCreateTopicEnable": "false", "autoCreateSubscriptionGroup": "false",
        }
    )  # fmt: skip
    assert [field.name for field in fields(found) if getattr(found, field.name) is None] == []
    assert (found.mapped_file_size_commit_log, found.check_crc_on_recover) == (1, True)


@pytest.mark.parametrize(
    "line",
    [
        "maxIndexNum=0", "maxIndexNum=-1", "maxIndexNum=x", "maxIndexNum=", "maxIndexNum=1.5",
        "maxIndexNum=99999999999999999999", "messageIndexEnable=yes", "messageIndexEnable=",
    ],
)  # fmt: skip
def test_values_of_the_wrong_kind(line: str, tmp_path: Path) -> None:
    """A value that is not of its kind is refused with the file's and the setting's name."""
    path = tmp_path / "broker.conf"
    path.write_text(line)
    with pytest.raises(ConfigError, match=line.partition("=")[0]) as caught:
        StoreConfig.from_file(path)
    assert str(path) in str(caught.value)


def test_zero_where_the_peer_gives_it_a_meaning() -> None:
    """A broker.conf may say 0 for pages, thorough intervals, ages and ratios."""
    found = StoreConfig.from_properties({"flushCommitLogLeastPages": "0", "fileReservedTime": "0"})
    assert (found.flush_commit_log_least_pages, found.file_reserved_time) == (0, 0)


def test_files_that_are_none(tmp_path: Path) -> None:
    """A file that is missing, a folder, or far too large is refused by name."""
    large = tmp_path / "large"
    large.write_bytes(b"#" * ((1 << 20) + 1))
    for path in (tmp_path / "missing", tmp_path, large):
        with pytest.raises(ConfigError, match=str(path)):
            StoreConfig.from_file(path)


def test_assignments_come_on_top() -> None:
    """`NAME=VALUE` replaces what the file said and leaves the rest; unknown names are refused."""
    base = StoreConfig(max_index_num=5, max_hash_slot_num=6)
    found = base.updated(["maxIndexNum=7", " messageDelayLevel =1s 2s"])
    assert (found.max_index_num, found.max_hash_slot_num, found.message_delay_level) == (7, 6, "1s 2s")
    for bad, said in {
        "maxIndexNum": "give NAME=VALUE",
        "nothing=1": "no setting of this name is used here; the page Configuration of reput's documentation lists them",
        "=1": "no setting of this name is used here; the page Configuration of reput's documentation lists them",
        "max_index_num=1": "did you mean maxIndexNum",
        "mapedFileSizeConsumeQueu=6000": "did you mean mappedFileSizeConsumeQueue",
    }.items():
        with pytest.raises(ConfigError, match=said):
            base.updated([bad])


def test_delay_levels() -> None:
    """Levels are numbers with a unit, in milliseconds."""
    assert parse_delay_levels("1s  2m 3h 4d") == [1000, 120_000, 10_800_000, 345_600_000]
    assert parse_delay_levels("") == []
    for bad in ("1", "s", "1x", "-1s", "1.5s", "1s,2s", "1000000000000s"):
        with pytest.raises(ConfigError, match="messageDelayLevel"):
            parse_delay_levels(bad)
