"""Makes the private keys and certificates of one control plane, in PEM; writes no files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from gpupool.live.cluster.local_layout import CONTEXT

_VALID = timedelta(days=3650)


def service_account_key() -> str:
    """A fresh P-256 private key in PEM."""
    return _pem(ec.generate_private_key(ec.SECP256R1()))


def kubelet_pair() -> tuple[str, str]:
    """A certificate and its key in PEM, for both ends of the API server's connection to the pod runner.

    It is signed by itself and each end trusts nothing else, so that no other user of the machine can read
    the output of pods or take the runner's place.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, CONTEXT)])
    address = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    start = datetime.now(UTC) - timedelta(days=1)  # the clock may be set back
    certificate = (
        x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), start, start + _VALID
        )
        .add_extension(address, critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM).decode(), _pem(key)


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
