"""Messages as gRPC's clients get them."""

from __future__ import annotations

import hashlib
import zlib

from reput.broker.grpc.messages import message_of
from reput.broker.grpc.protocol.definition_pb2 import DigestType
from reput.formats.log.record import Record, decode_record, encode_record


def test_a_wrong_body_got_a_digest_that_matched() -> None:
    """A client compares the body with the digest: that of a damaged body is the CRC of its record, which differs."""
    record = decode_record(memoryview(encode_record(Record(b"t", b"body"))))
    digest = message_of(record, "t").system_properties.body_digest
    assert (digest.type, digest.checksum) == (DigestType.MD5, hashlib.md5(b"body").hexdigest().upper())
    damaged = message_of(record._replace(body=b"bodY"), "t")
    digest = damaged.system_properties.body_digest
    assert (digest.type, int(digest.checksum, 16)) == (DigestType.CRC32, zlib.crc32(b"body") & 0x7FFFFFFF)
    assert zlib.crc32(damaged.body) & 0x7FFFFFFF != int(digest.checksum, 16)
