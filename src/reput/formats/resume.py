"""What a conversion leaves in its staging folder so that its next run can go on where it was killed.

    resume            which conversion it is: a JSON object of named texts; of equal ones the one goes on with the other
    report            staged last: what the conversion has to say (`report`), and bytes and time (ns) of the checkpoint
                      that goes live with it (`checkpoint`): where the live one has these, the swap went through
    done/STAGE-N      task N of a stage is done: `task` (digest of what it was given), `result` (what it gave back),
                      `files` (name below `parts/`, bytes, CRC-32 of each file that it left there) and `placed` (CRC-32
                      of the entries that it put to their places in queue files)

Each file is the CRC-32 of what follows (8 hex digits), a newline, and JSON, and is replaced whole by rename. What is
damaged, or of another version, counts as not there.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from zlib import crc32

RESUME_NAME = "resume"
REPORT_NAME = "report"
DONE_FOLDER = "done"
FORMAT_VERSION = 1
MOST_BYTES = 64 << 20
_SIGNS = 9


class FileProof(NamedTuple):
    """A file in the parts folder: its name, its length in bytes, and the CRC-32 of them."""

    name: str
    size: int
    crc: int


class Done(NamedTuple):
    """A task that is done; see the module. `result` is a JSON value."""

    task: str
    result: Any
    files: tuple[FileProof, ...]
    placed: int


def done_name(stage: str, number: int) -> str:
    """The file that says that a task is done."""
    return f"{stage}-{number}"


def encode_resume(what: dict[str, str]) -> bytes:
    """The bytes of `resume`."""
    return _encode({"version": FORMAT_VERSION, "what": what})


def decode_resume(data: bytes) -> dict[str, str] | None:
    """What `resume` says; None where it is damaged, or of another version."""
    value = _decode(data)
    what = value.get("what") if value is not None and value.get("version") == FORMAT_VERSION else None
    if not isinstance(what, dict) or not all(isinstance(text, str) for text in what.values()):
        return None
    return what


class Finished(NamedTuple):
    """What `report` says; see the module. `report` is a JSON value."""

    report: Any
    checkpoint: tuple[int, int]


def encode_report(finished: Finished) -> bytes:
    """The bytes of `report`."""
    return _encode({"version": FORMAT_VERSION, **finished._asdict()})


def decode_report(data: bytes) -> Finished | None:
    """What `report` says; None where it is damaged, or of another version."""
    value = _decode(data)
    if value is None or value.get("version") != FORMAT_VERSION:
        return None
    try:
        size, modified_ns = value["checkpoint"]
        return Finished(value["report"], (int(size), int(modified_ns)))
    except (KeyError, TypeError, ValueError):
        return None


def encode_done(done: Done) -> bytes:
    """The bytes of a `done` file."""
    return _encode({**done._asdict(), "files": [list(file) for file in done.files]})


def decode_done(data: bytes) -> Done | None:
    """What a `done` file says; None where it is damaged."""
    value = _decode(data)
    if value is None:
        return None
    try:
        files = tuple(FileProof(str(name), int(size), int(crc)) for name, size, crc in value["files"])
        done = Done(str(value["task"]), value["result"], files, int(value["placed"]))
    except (KeyError, TypeError, ValueError):
        return None
    # A name cannot lead out of the folder.
    return done if all("/" not in file.name and file.name not in ("", ".", "..") for file in files) else None


def _encode(value: dict[str, Any]) -> bytes:
    text = json.dumps(value, sort_keys=True).encode()
    return b"%08x\n%s" % (crc32(text), text)


def _decode(data: bytes) -> dict[str, Any] | None:
    text = data[_SIGNS:]
    if data[:_SIGNS] != b"%08x\n" % crc32(text):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
