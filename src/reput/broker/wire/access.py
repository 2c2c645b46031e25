"""Access keys: a request is served only if it is signed with the secret of a known key (`formats.wire.signature`).

All requests are signed, those to the name server too. A key may do everything; there are no rights by topic or group.
Clients that speak gRPC sign the time of each call. As in RocketMQ it may be any time: who reads a call can repeat its
signature.

Source: `AclClientRPCHook`, `AuthenticationPipeline`, and for what clients up to 4.9.3 do not sign
`DefaultAuthenticationContextBuilder`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reput.broker.wire.given_file import read_given_file
from reput.errors import ConfigError
from reput.formats.wire.signature import ACCESS_KEY, SIGNATURE, signature_of

if TYPE_CHECKING:
    from reput.formats.wire.remoting import RemotingFrame

_OF_CALL: Final = re.compile(r"MQv2-HMAC-SHA1 +Credential=([^,/\s]+)[^,]*,.*?\bSignature=([0-9a-fA-F]+)\s*")
_SIGNED_TIME: Final = "x-mq-date-time"
_LATER_FIELD: Final = "_UNIQUE_KEY_QUERY"
_V4_9_3 = 399
"""A client of this version or an older one adds the field to a request that it has signed."""
_SHORTEST = 7
"""RocketMQ takes no access key or secret of fewer characters."""


class AccessKeys:
    """The keys of a broker.

    Args:
        secrets: the secret of each access key.
        place: where they are, for errors.

    Raises:
        ConfigError: there is no key, or a key or secret is too short or not a text.
    """

    def __init__(self, secrets: Mapping[Any, Any], place: Path | str = "access_keys") -> None:
        if not secrets:
            raise ConfigError(f"{place}: it names no key, so nobody could be served; leave it out to check nothing")
        for number, (key, secret) in enumerate(secrets.items(), 1):
            if not all(isinstance(text, str) and len(text) >= _SHORTEST for text in (key, secret)):
                # No secret gets into a text that may be logged.
                raise ConfigError(f"{place}: key {number}: give a key and a secret of {_SHORTEST} characters or more")
        self._secrets = {key: secret.encode() for key, secret in secrets.items()}

    def refusal_of(self, frame: RemotingFrame) -> str | None:
        """Return why a request is not served; None if its signature is right."""
        secret = self._secrets.get(frame.fields.get(ACCESS_KEY, ""))
        if secret is None:
            return "No accessKey is configured" if ACCESS_KEY in frame.fields else "The accessKey is null"
        is_old = frame.version <= _V4_9_3
        signed = {name: text for name, text in frame.fields.items() if not (is_old and name == _LATER_FIELD)}
        wanted = signature_of(signed, frame.body, secret)
        given = frame.fields.get(SIGNATURE, "").encode("utf-8", "replace")
        return None if hmac.compare_digest(wanted, given) else "check signature failed"

    def refusal_of_call(self, metadata: Mapping[str, str]) -> str | None:
        """Return why a call of gRPC is not served; None if its signature is right."""
        found = _OF_CALL.fullmatch(metadata.get("authorization", ""))
        if found is None:
            return "the call has no signature: authorization is missing, or of another form"
        secret = self._secrets.get(found[1])
        if secret is None:
            return "No accessKey is configured"
        signed = metadata.get(_SIGNED_TIME, "").encode("utf-8", "replace")
        wanted = hmac.new(secret, signed, hashlib.sha1).hexdigest()
        return None if hmac.compare_digest(wanted, found[2].lower()) else "check signature failed"


def read_access_keys(path: Path | str) -> dict[str, str]:
    """Return the secrets of a file that has a key and its secret in each line, with a space between.

    Raises:
        ConfigError: the file is missing or too large, a line has another form, or a key comes twice.
    """
    data = read_given_file(path, "the access keys")
    secrets: dict[str, str] = {}
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        if len(parts) != 2:
            raise ConfigError(f"{path}, line {number}: give a key and its secret, with a space between")
        if parts[0] in secrets:
            raise ConfigError(f"{path}, line {number}: the key of this line comes twice; give each key one secret")
        secrets[parts[0]] = parts[1]
    return secrets
