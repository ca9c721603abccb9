"""What the sandbox writes down about itself."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast_cli.sandbox import state
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.processes import ManagedProcess
from holdfast_cli.sandbox.state import SandboxState, Service


def sandbox(folder: Path) -> SandboxState:
    started = datetime(2026, 3, 1, 4, 10, tzinfo=UTC)
    services = {
        name: Service(name, f"http://localhost:{port}", ManagedProcess(name, 4711, "99", folder / f"{name}.log"))
        for name, port in (("moto", 1), ("ministack", 2))
    }
    return SandboxState(folder, "111122223333", "ap-southeast-1", "token", started, services)


def test_saved_state_is_loaded_as_it_was(tmp_path: Path) -> None:
    state.save(sandbox(tmp_path))

    loaded = state.load(tmp_path)

    assert loaded == sandbox(tmp_path)
    assert list(loaded.services) == ["moto", "ministack"], "in the order they were started"


def test_state_holds_a_token_and_is_for_its_owner_only(tmp_path: Path) -> None:
    state.save(sandbox(tmp_path))

    assert (tmp_path / "state.json").stat().st_mode & 0o077 == 0


def test_there_is_no_state_before_the_first_start_and_after_the_stop(tmp_path: Path) -> None:
    assert state.load(tmp_path) is None
    state.save(sandbox(tmp_path))

    state.forget(tmp_path)

    assert state.load(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", '{"services": []}', '{"services": [{"name": "moto"}]}'])
def test_unreadable_state_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)

    with pytest.raises(SandboxError, match=r"state\.json is not a state of this version"):
        state.load(tmp_path)


def test_missing_service_is_an_error_that_names_those_that_run(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"runs no slack \(it runs moto, ministack\)"):
        sandbox(tmp_path).service("slack")


def test_service_of_the_same_name_is_replaced(tmp_path: Path) -> None:
    newer = Service("moto", "http://localhost:3", ManagedProcess("moto", 1, "1", tmp_path / "moto.log"))

    changed = sandbox(tmp_path).with_service(newer)

    assert changed.service("moto") == newer
    assert list(changed.services) == ["moto", "ministack"]
