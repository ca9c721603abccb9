"""What the running sandbox is: one JSON file in the one folder that everything it writes lies under."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.processes import ManagedProcess

ACCOUNT_ID = "111122223333"
REGION = "ap-southeast-1"
_FILE = "state.json"


@dataclass(frozen=True, slots=True)
class Service:
    """One running program of the sandbox and where it answers."""

    name: str
    url: str
    process: ManagedProcess


@dataclass(frozen=True, slots=True)
class SandboxState:
    """The running sandbox. `control_token` is the bearer token of our servers' control endpoints."""

    folder: Path
    account: str
    region: str
    control_token: str
    started: datetime
    services: Mapping[str, Service]

    @property
    def ca(self) -> Path:
        """PEM file of the authority that signed the servers' certificate."""
        return self.folder / "tls" / "ca.pem"

    @property
    def certificate(self) -> Path:
        """PEM file of the server certificate for localhost and 127.0.0.1."""
        return self.folder / "tls" / "localhost.pem"

    @property
    def key(self) -> Path:
        """PEM file of the server certificate's private key."""
        return self.folder / "tls" / "localhost.key"

    @property
    def logs(self) -> Path:
        """Folder of the programs' output, one file each; it outlives the sandbox."""
        return self.folder / "logs"

    @property
    def tmp(self) -> Path:
        """TMPDIR of everything that runs in the sandbox; gone when it is stopped."""
        return self.folder / "tmp"

    @property
    def home(self) -> Path:
        """HOME of everything that runs in the sandbox; gone when it is stopped.

        The CDK's command line caches which key belongs to which account there; a cache of another
        account fails with "Need to perform AWS calls for account".
        """
        return self.folder / "home"

    def service(self, name: str) -> Service:
        """The service of that name.

        Raises:
            SandboxError: the sandbox has none.
        """
        try:
            return self.services[name]
        except KeyError:
            known = ", ".join(self.services) or "nothing"
            raise SandboxError(
                f"the sandbox in {self.folder} runs no {name} (it runs {known}). Stop it and start it again."
            ) from None

    def with_service(self, service: Service) -> Self:
        """The same sandbox with one more service, or with a newer one of the same name."""
        return replace(self, services={**self.services, service.name: service})


def default_folder() -> Path:
    """`.sandbox` in the project that this package is installed from."""
    return Path(__file__).resolve().parents[3] / ".sandbox"


def save(state: SandboxState) -> None:
    """Write the state in one step: a reader sees the old one or the new one. Only its owner may read it."""
    document = {
        "account": state.account,
        "region": state.region,
        "control_token": state.control_token,
        "started": state.started.isoformat(),
        "services": [asdict(service) for service in state.services.values()],
    }
    staged = state.folder / f"{_FILE}.new"
    staged.unlink(missing_ok=True)
    staged.touch(mode=0o600)
    staged.write_text(json.dumps(document, indent=1, default=str) + "\n", "utf-8")
    staged.replace(state.folder / _FILE)


def load(folder: Path) -> SandboxState | None:
    """The sandbox that was started in `folder`, running or dead; None when there is none.

    Raises:
        SandboxError: the file is there but not readable as a state.
    """
    path = folder / _FILE
    try:
        document: dict[str, Any] = json.loads(path.read_text("utf-8"))
        services = [
            Service(
                entry["name"],
                entry["url"],
                ManagedProcess(**{**entry["process"], "log": Path(entry["process"]["log"])}),
            )
            for entry in document["services"]
        ]
        return SandboxState(
            folder=folder,
            account=document["account"],
            region=document["region"],
            control_token=document["control_token"],
            started=datetime.fromisoformat(document["started"]),
            services={service.name: service for service in services},
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise SandboxError(
            f"{path} is not a state of this version of the sandbox ({error!r}). "
            f"If no sandbox runs any more, delete {folder}."
        ) from error


def forget(folder: Path) -> None:
    """Remove the state file: nothing runs in `folder` any more."""
    (folder / _FILE).unlink(missing_ok=True)
    (folder / f"{_FILE}.new").unlink(missing_ok=True)
