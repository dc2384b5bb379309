"""Which certificates are shown, and whose are believed."""

from __future__ import annotations

import dataclasses

from smgproxy.core.options import flag

_GROUP = "TLS/mTLS Security"


@dataclasses.dataclass(frozen=True)
class TlsOptions:
    """Paths of PEM files, for clients (``tls_...``) and for workers (the others)."""

    tls_cert_path: str | None = flag(
        None,
        "--tls-cert-path",
        _GROUP,
        "serve HTTPS: the server certificate, with its chain behind it (PEM)",
        metavar="FILE",
    )
    tls_key_path: str | None = flag(
        None,
        "--tls-key-path",
        _GROUP,
        "private key of the server certificate (PEM, without a password)",
        metavar="FILE",
    )
    tls_client_ca_paths: tuple[str, ...] = flag(
        (),
        "--tls-client-ca-paths",
        _GROUP,
        "demand a certificate of every client, issued by one of these CAs (PEM)",
        metavar="FILE",
        is_list=True,
    )
    tls_handshake_timeout_secs: int = flag(
        10,
        "--tls-handshake-timeout-secs",
        _GROUP,
        "close a client connection whose TLS handshake takes longer",
        minimum=1,
    )
    client_cert_path: str | None = flag(
        None,
        "--client-cert-path",
        _GROUP,
        "certificate shown to https:// workers that ask for one (PEM)",
        metavar="FILE",
    )
    client_key_path: str | None = flag(
        None,
        "--client-key-path",
        _GROUP,
        "private key of that certificate (PEM, without a password)",
        metavar="FILE",
    )
    ca_cert_paths: tuple[str, ...] = flag(
        (),
        "--ca-cert-paths",
        _GROUP,
        "CAs that https:// workers may be certified by, beside the system's (PEM)",
        metavar="FILE",
        is_list=True,
    )

    @property
    def serves_https(self) -> bool:
        """Whether clients speak TLS to the gateway."""
        return self.tls_cert_path is not None

    @property
    def demands_client_certificates(self) -> bool:
        """Whether a client needs a certificate to be heard at all."""
        return bool(self.tls_client_ca_paths)

    @property
    def names_worker_files(self) -> bool:
        """Whether a flag says something about ``https://`` workers."""
        return bool(self.client_cert_path or self.ca_cert_paths)

    def __post_init__(self) -> None:
        pairs = (
            ("--tls-cert-path", self.tls_cert_path),
            ("--tls-key-path", self.tls_key_path),
        ), (
            ("--client-cert-path", self.client_cert_path),
            ("--client-key-path", self.client_key_path),
        )
        for (cert_flag, cert), (key_flag, key) in pairs:
            if (cert is None) != (key is None):
                given, missing = cert_flag, key_flag
                if cert is None:
                    given, missing = key_flag, cert_flag
                raise ValueError(f"{given}: has no effect alone, add {missing} FILE")
        if self.tls_client_ca_paths and not self.serves_https:
            raise ValueError(
                "--tls-client-ca-paths: has no effect without --tls-cert-path FILE "
                "and --tls-key-path FILE"
            )
