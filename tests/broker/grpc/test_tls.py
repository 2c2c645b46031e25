"""The gRPC port speaks TLS with a certificate that is given or made; one that cannot work is refused at the start."""

from __future__ import annotations

import datetime as dt
import socket
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

import reput
from broker.grpc.stubs import GrpcClient, message, publishing
from reput.broker.grpc.certificates import Certificate, own_certificate, read_certificate
from reput.broker.grpc.protocol.definition_pb2 import Code
from reput.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

DAY = dt.timedelta(days=1)


def certificate(key: Any = None, *, begins: dt.timedelta = -DAY, ends: dt.timedelta = DAY) -> Certificate:
    """A certificate of a key, by default one of P-256, valid from yesterday until tomorrow."""
    key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
    name, now = x509.Name([]), dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now + begins, now + ends)
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("box.test")]), critical=False)
    signed = made.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    return Certificate(signed.public_bytes(serialization.Encoding.PEM), pem_of(key))


def pem_of(key: Any, password: bytes | None = None) -> bytes:
    """A key as it is in a file."""
    kinds = serialization
    hidden = kinds.NoEncryption() if password is None else kinds.BestAvailableEncryption(password)
    data: bytes = key.private_bytes(kinds.Encoding.PEM, kinds.PrivateFormat.PKCS8, hidden)
    return data


def written(folder: Path, given: Certificate) -> tuple[Path, Path]:
    """The files of a certificate and its key."""
    paths = folder / "server.pem", folder / "server.key"
    for path, data in zip(paths, given, strict=True):
        path.write_bytes(data)
    return paths


@pytest.mark.parametrize("key", [rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP384R1()), None])
def test_a_given_certificate_is_shown_to_clients(tmp_path: Path, key: Any) -> None:
    """A client that trusts it sends, and has a stream; one that speaks plain text, or trusts others, does not."""
    chain, secret = written(tmp_path, certificate(key))
    with reput.serve(topics=["orders"], grpc_port=0, grpc_tls=(chain, secret)) as broker:
        assert broker.grpc_certificate == chain.read_bytes()
        address = str(broker.grpc_address)
        with GrpcClient(address, trusts=chain.read_bytes(), named="box.test") as client:
            assert client.send(message()).status.code == Code.OK
            with client.telemetry() as stream:
                assert stream.give(publishing("orders")).publishing.max_body_size > 0
        for wrong in ({}, {"trusts": certificate().chain, "named": "box.test"}):
            with GrpcClient(address, **wrong) as other, pytest.raises(grpc.RpcError) as caught:
                other.send(message())
            assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


def test_a_certificate_that_the_broker_makes_has_its_names() -> None:
    """A client that trusts it connects by address and by name; each start makes another one."""
    with reput.serve(topics=["orders"], grpc_port=0, grpc_tls=True) as broker:
        assert broker.grpc_certificate is not None
        for host in ("127.0.0.1", "localhost"):
            address = f"{host}:{str(broker.grpc_address).rpartition(':')[2]}"
            with GrpcClient(address, trusts=broker.grpc_certificate) as client:
                assert client.send(message()).status.code == Code.OK
    assert own_certificate(["localhost"]).chain != own_certificate(["localhost"]).chain
    with reput.serve(grpc_port=0) as plain:
        assert plain.grpc_certificate is None


def test_an_own_certificate_can_be_given(tmp_path: Path) -> None:
    """A certificate that the broker makes for itself is one that it takes."""
    made = own_certificate(["localhost", "10.1.2.3"])
    assert read_certificate(*written(tmp_path, made)) == made


GOOD = certificate()
ED25519 = ed25519.Ed25519PrivateKey.generate()
HIDDEN = pem_of(serialization.load_pem_private_key(GOOD.key, None), b"password")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (Certificate(GOOD.chain, certificate().key), "not the one of the certificate"),
        (Certificate(GOOD.key, GOOD.chain), "no certificate in PEM"),
        (Certificate(b"", GOOD.key), "no certificate in PEM"),
        (Certificate(GOOD.chain, GOOD.chain), "no private key in PEM"),
        (Certificate(GOOD.chain[:-40], GOOD.key), "no certificate in PEM"),
        (Certificate(GOOD.chain, HIDDEN), "openssl pkey -in"),
        (certificate(ED25519), "P-256 and P-384 alone"),
        (certificate(ec.generate_private_key(ec.SECP521R1())), "P-256 and P-384 alone"),
        (certificate(rsa.generate_private_key(65537, 1024)), "RSA from 2048 bits on"),
        (certificate(ends=-DAY / 2), "not now"),
        (certificate(begins=DAY / 2), "not now"),
    ],
)
def test_files_that_do_not_fit_are_refused_before_anything_listens(
    tmp_path: Path, given: Certificate, words: str
) -> None:
    """The error names the file, and no store is made."""
    chain, key = written(tmp_path, given)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(reput.ConfigError, match=words) as caught:
            reput.serve(tmp_path / "store", port, grpc_port=0, grpc_tls=(chain, key))
    assert str(tmp_path) in str(caught.value)
    # The library's own words lead to its web pages.
    assert "http" not in str(caught.value)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"grpc_tls": ("a",)}, "files of a certificate and of its key"),
        ({"grpc_tls": ("a", None)}, "files of a certificate and of its key"),
        ({"grpc_tls": ("a", "b")}, "a: cannot read the certificate"),
        ({"grpc_tls": 1}, "give True, False"),
        ({"grpc_tls": True, "grpc_port": None}, "give that, too"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    """No store is made."""
    with pytest.raises(reput.ConfigError, match=words):
        reput.serve(tmp_path / "store", **{"grpc_port": 0, **arguments})
    assert not (tmp_path / "store").exists()


def test_the_command_refuses_a_certificate_by_its_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It says why, and makes no store."""
    chain, key = written(tmp_path, Certificate(GOOD.chain, certificate().key))
    words = ["serve", str(tmp_path / "store"), "--port=0", "--grpc-port=0"]
    assert run([*words, f"--grpc-tls-cert={chain}", f"--grpc-tls-key={key}"]) == 2
    assert "not the one of the certificate" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()
    assert run([*words, f"--grpc-tls-cert={chain}"]) == 2
    assert "give both" in capsys.readouterr().err
