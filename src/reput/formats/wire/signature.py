"""The signature of a request, by which a client shows that it has the secret of an access key.

A client adds the fields `AccessKey`, perhaps `SecurityToken`, and `Signature`. The signature is an HMAC-SHA1 with the
secret as its key, in base64. It covers the values of all other header fields, in the order of their names, and then the
body.

Source: `AclClientRPCHook`, `AclUtils.combineRequestContent`, `AclSigner`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"


def signature_of(fields: Mapping[str, str], body: bytes, secret: bytes) -> bytes:
    """Return the signature of a request, in base64."""
    values = "".join(fields[name] for name in sorted(fields) if name != SIGNATURE)
    signed = hmac.new(secret, values.encode("utf-8", "surrogatepass"), hashlib.sha1)
    signed.update(body)
    return base64.b64encode(signed.digest())
