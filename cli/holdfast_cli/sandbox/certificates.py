"""A certificate authority of the sandbox and one server certificate for localhost that it signed."""

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALID_FOR = timedelta(days=90)
_RENEW_BEFORE = timedelta(days=2)
# A clock that runs a little behind must not refuse a certificate that was made a second ago.
_BACKDATED = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Certificates:
    """Paths of PEM files: the authority to trust, the server's certificate and its private key."""

    ca: Path
    certificate: Path
    key: Path


def ensure(folder: Path, now: datetime) -> Certificates:
    """Certificates for `localhost` and `127.0.0.1` in `folder`; made anew when missing or about to expire.

    The authority's private key is thrown away, so nothing else can ever be signed in its name.
    """
    paths = Certificates(folder / "ca.pem", folder / "localhost.pem", folder / "localhost.key")
    if not _usable(paths, now):
        folder.mkdir(parents=True, exist_ok=True)
        _create(paths, now)
    return paths


def _usable(paths: Certificates, now: datetime) -> bool:
    if not (paths.ca.exists() and paths.certificate.exists() and paths.key.exists()):
        return False
    expiry = x509.load_pem_x509_certificate(paths.certificate.read_bytes()).not_valid_after_utc
    return expiry - now > _RENEW_BEFORE


def _create(paths: Certificates, now: datetime) -> None:
    ca_key = ec.generate_private_key(ec.SECP256R1())
    server_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Holdfast sandbox CA")])
    server_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])

    # OpenSSL's strict mode, Python 3.13's default, wants key usage and key identifiers (RFC 5280 §4.2.1).
    authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(authority_id, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    certificate = (
        _builder(server_name, ca_name, server_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(authority_id, critical=False)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(ca_key, hashes.SHA256())
    )

    paths.key.unlink(missing_ok=True)
    paths.key.touch(mode=0o600)
    paths.key.write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    paths.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _VALID_FOR)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
