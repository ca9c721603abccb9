"""`make` says what is missing on a machine before it changes anything."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "cli" / "setup" / "prerequisites.sh"
PYTHON_3_13 = 'case "$2" in *version_info*) echo 3.13 ;; esac'


@dataclass(frozen=True)
class Machine:
    """A machine that has only the programs put into it."""

    folder: Path

    def has(self, name: str, script: str) -> None:
        program = self.folder / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def lacks(self, name: str) -> None:
        (self.folder / name).unlink()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", str(SCRIPT), *arguments],
            env={"PATH": str(self.folder), "HOME": str(self.folder / "home")},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with everything."""
    machine = Machine(tmp_path)
    machine.has("python3.13", PYTHON_3_13)
    machine.has("node", "echo v22.11.0")
    machine.has("npm", "echo 10.9.0")
    machine.has("make", "echo GNU Make 4.3; echo more lines")
    machine.has("git", "echo git version 2.39.5")
    return machine


def test_a_machine_with_everything_is_fit(machine: Machine) -> None:
    done = machine.run()

    assert (done.returncode, done.stderr) == (0, "")
    assert "v22.11.0" in done.stdout
    assert "more lines" not in done.stdout


@pytest.mark.parametrize(
    ("program", "named", "way_out"),
    [
        ("python3.13", "Python 3.13", "pyenv install 3.13"),
        ("node", "Node 20", "nodejs.org"),
        ("npm", "npm", "install the package npm"),
        ("make", "make", "install the package make"),
        ("git", "git", "install the package git"),
    ],
)
def test_what_is_missing_is_named_with_the_way_to_get_it(
    machine: Machine, program: str, named: str, way_out: str
) -> None:
    machine.lacks(program)

    done = machine.run()

    assert done.returncode == 1
    assert f"{named} " in done.stderr
    assert way_out in done.stderr
    assert "Nothing was changed" in done.stderr


def test_everything_missing_is_said_at_once(tmp_path: Path) -> None:
    done = Machine(tmp_path).run()

    assert done.returncode == 1
    assert done.stderr.count("missing:") == 5


def test_an_old_node_is_refused_with_its_version(machine: Machine) -> None:
    machine.has("node", "echo v18.20.4")

    done = machine.run()

    assert done.returncode == 1
    assert "v18.20.4" in done.stderr


def test_another_python_is_not_taken_for_3_13(machine: Machine) -> None:
    machine.lacks("python3.13")
    machine.has("python3", "echo 3.12")

    assert machine.run().returncode == 1
    assert machine.run("--python").stdout.strip() == ""


def test_python3_will_do_if_it_is_3_13(machine: Machine) -> None:
    machine.lacks("python3.13")
    machine.has("python3", PYTHON_3_13)

    assert machine.run("--python").stdout.strip() == str(machine.folder / "python3")


def test_a_pyenv_shim_without_its_version_is_passed_over_for_the_version_itself(machine: Machine) -> None:
    machine.has("python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127")
    machine.has("home/.pyenv/versions/3.13.0/bin/python3.13", PYTHON_3_13)

    installed = machine.folder / "home/.pyenv/versions/3.13.0/bin/python3.13"
    assert machine.run("--python").stdout.strip() == str(installed)


def test_a_python_without_venv_is_told_apart(machine: Machine) -> None:
    machine.has("python3.13", 'case "$2" in *version_info*) echo 3.13 ;; *) exit 1 ;; esac')

    done = machine.run()

    assert done.returncode == 1
    assert "python3.13-venv" in done.stderr
