"""Certificates of the gRPC port: one that is given, with its key, or one that the broker makes for itself.

What cannot work is refused before the port is opened: gRPC's own errors do not say what is wrong, and with some keys no
client can connect at all.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from reput.broker.wire.given_file import read_given_file
from reput.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

_CURVES: Final = (ec.SECP256R1, ec.SECP384R1)
_LEAST_BITS: Final = 2048
_OWN_DAYS: Final = 3650
_OWN_NAME: Final = "reput serve"


class Certificate(NamedTuple):
    """A certificate and its key, as PEM. `chain`: the certificate first, then its issuers."""

    chain: bytes
    key: bytes


def read_certificate(chain_path: Path | str, key_path: Path | str) -> Certificate:
    """Return the certificate of a file, with the key of another one.

    Raises:
        ConfigError: a file is missing or has something else, the key is another one's, has a password, or is of a kind
            that gRPC does not take, or the certificate is not valid now.
    """
    chain, key = read_given_file(chain_path, "the certificate"), read_given_file(key_path, "the key")
    try:
        first = x509.load_pem_x509_certificates(chain)[0]
    except ValueError as error:
        raise ConfigError(f"{chain_path}: this is no certificate in PEM: {_whole('CERTIFICATE')}") from error
    try:
        secret = serialization.load_pem_private_key(key, None)
    except TypeError as error:
        words = "the key has a password, and nobody is there to give it; write it without one: openssl pkey -in"
        raise ConfigError(f"{key_path}: {words} {key_path}") from error
    except ValueError as error:
        raise ConfigError(f"{key_path}: this is no private key in PEM: {_whole('PRIVATE KEY')}") from error
    if secret.public_key() != first.public_key():
        raise ConfigError(f"{key_path}: this key is not the one of the certificate {chain_path}; give the two together")
    is_curve = isinstance(secret, ec.EllipticCurvePrivateKey) and isinstance(secret.curve, _CURVES)
    if not is_curve and not (isinstance(secret, rsa.RSAPrivateKey) and secret.key_size >= _LEAST_BITS):
        words = f"clients of gRPC connect to keys of RSA from {_LEAST_BITS} bits on, P-256 and P-384 alone"
        raise ConfigError(f"{key_path}: {words}; make a certificate with one of these")
    now = dt.datetime.now(dt.UTC)
    if not first.not_valid_before_utc <= now <= first.not_valid_after_utc:
        times = f"{first.not_valid_before_utc:%Y-%m-%d %H:%M} to {first.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
        raise ConfigError(f"{chain_path}: the certificate is valid from {times}, not now; give another one")
    return Certificate(chain, key)


def _whole(kind: str) -> str:
    return f"give a file with the whole text from -----BEGIN {kind}----- to -----END {kind}-----"


def own_certificate(hosts: Iterable[str]) -> Certificate:
    """Return a new certificate that vouches for itself. `hosts`: names and addresses by which clients connect."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([_common_name(_OWN_NAME)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A client's clock may be slow.
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=_OWN_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectAlternativeName([_name_of(host) for host in dict.fromkeys(hosts)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return Certificate(made.public_bytes(serialization.Encoding.PEM), secret)


def _common_name(text: str) -> x509.NameAttribute[str]:
    return x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, text)


def _name_of(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
