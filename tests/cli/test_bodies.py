"""`--body`: commands show bodies as a consumer gets them, or as they are stored, and go on after a bad one."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING, Any

import pytest

import reput
from reput.cli.main import run
from reput.formats.log.record import FLAG_COMPRESSED
from reput.kernels import SWITCH
from support import golden, stores
from support.records import LogBuilder

if TYPE_CHECKING:
    from pathlib import Path

ZLIB = FLAG_COMPRESSED | 0x300


def lines(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[str]:
    """Run a command; return the lines of its stdout."""
    capfd.readouterr()
    assert run([*arguments]) == code
    return capfd.readouterr().out.splitlines()


def body_of(value: dict[str, Any]) -> bytes:
    """Return the bytes of a body in JSON."""
    return base64.b64decode(value["body"]) if value["body_encoding"] == "base64" else str(value["body"]).encode()


@pytest.mark.golden
@pytest.mark.parametrize("command", ["get", "dump log", "dump queue"])
def test_commands_show_what_the_java_client_compressed(capfd: pytest.CaptureFixture[str], command: str) -> None:
    """Each command decompresses every body of a topic, and `--body raw` leaves the stored bytes with their flags."""
    store = str(golden.shared("json"))
    more = {"get": ("-c", "5000"), "dump log": (), "dump queue": ("--records",)}[command]
    asked = (*command.split(), store, "-t", "orders", "--json", *more)
    shown, raw = (
        [value.get("record", value) for value in map(json.loads, lines(capfd, *asked, "--body", form))]
        for form in ("decoded", "raw")
    )
    compressed = 0
    for value, stored in zip(shown, raw, strict=True):
        body = body_of(value)
        if stored["sys_flag"] & FLAG_COMPRESSED:
            compressed += 1
            said = value["properties"]
            assert (len(body), zlib.crc32(body) & 0x7FFFFFFF) == (int(said["plainSize"]), int(said["plainCrc"]))
            assert value["sys_flag"] == stored["sys_flag"] & ~0x701
            assert value["compression"] == stored["compression"] in {"zlib", "lz4", "zstd"}
        else:
            assert value == stored
    assert compressed


def some_bodies(folder: Path) -> tuple[Path, LogBuilder]:
    """Make a store with a plain, a compressed and a bad body."""
    log = LogBuilder()
    log.message("orders", body=b"plain", keys="k")
    log.message("orders", body=zlib.compress(b"whole"), sys_flag=ZLIB, keys="k")
    log.message("orders", body=b"no stream", sys_flag=ZLIB, keys="k")
    log.message("orders", body=b"last", keys="k")
    store = stores.with_log(folder, log)
    stores.rebuild(store, None)
    return store, log


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("get", "-t", "orders"), ["plain", "whole", "error:zlib: ", "last"]),
        (("get", "-t", "orders", "--format", "%s|%S\\n"), ["plain|5", "whole|5", "|0", "last|4"]),
        (("get", "-t", "orders", "--raw"), ["plain", "whole", "", "last"]),
        (("get", "-t", "orders", "-l"), ["text:plain", "text:whole", "error:zlib: ", "text:last"]),
        (("query", "-t", "orders", "--key", "k", "--body-bytes", "9"), ["text:plain", "text:whole", "error", "text:"]),
        (("dump", "log", "--body-bytes", "9"), ["text:plain", "text:whole", "error:zlib: ", "text:last"]),
        (("dump", "queue", "--records", "--body-bytes", "9"), ["text:plain", "text:whole", "error:zlib", "text:last"]),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_bad_body_costs_no_other_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], options: tuple[str, ...], shown: list[str]
) -> None:
    """A body that cannot be decompressed is named with its log offset; all others come, and the exit code is 1."""
    store, log = some_bodies(tmp_path)
    words = 2 if options[0] == "dump" else 1
    assert run([*options[:words], str(store), *options[words:]]) == 1
    out, err = capfd.readouterr()
    for line, text in zip(out.splitlines(), shown, strict=True):
        assert line.split("\t")[-1].startswith(text)
    assert f"damage: log offset {log.placed[2].offset}: the body cannot be decompressed: zlib: " in err
    assert "--body raw shows the stored bytes" in err


def test_a_bad_body_in_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """JSON has null in place of a bad body, and body_error; without one there is no such member."""
    store, _ = some_bodies(tmp_path)
    found = [json.loads(line) for line in lines(capfd, "get", str(store), "-t", "orders", "--json", code=1)]
    assert [value["body"] for value in found] == ["plain", "whole", None, "last"]
    assert [value.get("body_error", "")[:5] for value in found] == ["", "", "zlib:", ""]
    raw = [json.loads(line) for line in lines(capfd, "get", str(store), "-t", "orders", "--json", "--body", "raw")]
    assert body_of(raw[2]) == b"no stream"


def test_a_bomb_is_bounded_by_a_setting(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """MaxDecodedBodySize bounds what a body may expand to."""
    store, _ = some_bodies(tmp_path)
    found = lines(capfd, "get", str(store), "-t", "orders", "--set", "maxDecodedBodySize=4", code=1)
    assert found[1] == "error:zlib: expands to more than 4 bytes (maxDecodedBodySize)"


@pytest.mark.golden
@pytest.mark.parametrize("form", ["decoded", "raw"])
def test_a_copy_is_the_same_to_a_consumer(tmp_path: Path, capfd: pytest.CaptureFixture[str], form: str) -> None:
    """`get --json | put --json-lines` copies decompressed bodies as such, and stored ones with their compression."""
    get = ["get", str(golden.shared("json")), "-t", "payments", "-c", "5000", "--json"]
    copied = lines(capfd, *get, "--body", form)
    put = [sys.executable, "-m", "reput", "put", str(tmp_path / "copy"), "--json-lines", "--create", "--no-reput"]
    done = subprocess.run(put, input="\n".join(copied), text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    again = ["get", str(tmp_path / "copy"), "-t", "payments", "-c", "5000", "--json"]
    before = [json.loads(line) for line in lines(capfd, *get)]
    after = [json.loads(line) for line in lines(capfd, *again)]
    assert sorted(map(body_of, after)) == sorted(map(body_of, before))
    kept = sum(json.loads(line)["compression"] is not None for line in lines(capfd, *again, "--body", "raw"))
    assert (kept > 0) == (form == "raw")


def test_put_refuses_a_line_of_a_bad_body() -> None:
    """A line of `get --json` whose body could not be decompressed is refused with the way to copy the message."""
    from reput.cli.put.lines import Defaults, parse_lines

    undecoded = {"topic": "t", "body": None, "body_encoding": None, "body_error": "zlib: cut off"}
    damaged = {"topic": "t", "body": "b", "body_error": "the body does not match its CRC"}
    for value, way in ((undecoded, "--body raw"), (damaged, "--no-verify-crc to put it as it is")):
        found, refused = parse_lines([(1, json.dumps(value).encode())], Defaults(None, 0, [], None, {}), True)
        assert not found
        assert f"{value['body_error']}. Get the message with {way}" in str(refused)


# --- CRCs -----------------------------------------------------------------------------------------


def with_a_damaged_body(folder: Path) -> tuple[Path, int]:
    """Make a store of three bodies, and change a bit of the second; return the store and that message's log offset."""
    log = LogBuilder()
    for body in (b"first", b"second", b"third"):
        log.message("orders", body=body, keys="k")
    store = stores.with_log(folder, log)
    stores.rebuild(store, None)
    path = store / "commitlog" / f"{0:020}"
    data = bytearray(path.read_bytes())
    data[data.index(b"second")] ^= 1
    path.write_bytes(data)
    return store, log.placed[1].offset


@pytest.mark.parametrize("kernels", ["compiled", "reference"])
@pytest.mark.parametrize(
    "options",
    [("get", "-t", "orders"), ("get", "-t", "orders", "-l"), ("get", "-t", "orders", "--raw"),
     ("get", "-t", "orders", "--format", "%s\\n"), ("query", "-t", "orders", "--key", "k", "--body-bytes", "9")],
    ids=" ".join,
)  # fmt: skip
def test_a_damaged_body_is_shown_and_named(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    kernels: str,
) -> None:
    """A body that does not match its CRC comes as it is, stderr names its log offset, and the exit code is 1."""
    monkeypatch.setenv(SWITCH, kernels)
    store, offset = with_a_damaged_body(tmp_path)
    assert run([options[0], str(store), *options[1:]]) == 1
    out, err = capfd.readouterr()
    assert [line[-5:] for line in out.splitlines()] == ["first", "econd", "third"]
    assert f"damage: log offset {offset}: the body does not match its CRC" in err
    assert "1 shown body does not match the CRC: `reput check`" in err
    assert run([options[0], str(store), *options[1:], "--no-verify-crc"]) == 0
    unverified = capfd.readouterr()
    assert unverified.out == out
    assert "CRC" not in unverified.err


def test_a_dump_that_begins_with_damage_names_the_damage_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`dump log` from a damaged record exits 1, and does not say that there is no record after it."""
    store, offset = with_a_damaged_body(tmp_path)
    assert run(["dump", "log", str(store), "--physical-offset", str(offset)]) == 1
    said = capfd.readouterr().err
    assert "damage: " in said
    assert "no record at log offset" not in said


def test_a_damaged_body_in_json(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """JSON has the body as it is, and body_error says that it is damaged."""
    store, _ = with_a_damaged_body(tmp_path)
    for verb in (["get", str(store), "-t", "orders"], ["query", str(store), "-t", "orders", "--key", "k"]):
        found = [json.loads(line) for line in lines(capfd, *verb, "--json", code=1)]
        assert [value["body"][1:] for value in found] == ["irst", "econd", "hird"]
        assert [value.get("body_error") for value in found] == [None, "the body does not match its CRC", None]


def test_a_program_can_ask_for_the_crc(tmp_path: Path) -> None:
    """`body_matches_crc` of a message says whether its body is the one that was stored; a read alone does not ask."""
    store, _ = with_a_damaged_body(tmp_path)
    with reput.MessageStore.open(store, read_only=True) as opened:
        assert [message.body_matches_crc for message in opened.messages("orders")] == [True, False, True]
