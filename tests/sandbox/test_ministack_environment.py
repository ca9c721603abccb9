"""MiniStack runs in a Python of its own, with nothing in it that a function could take for its own package."""

import re
import subprocess
from pathlib import Path

import pytest

from holdfast_cli.sandbox import aws, ministack_environment

pytestmark = pytest.mark.sandbox

PACKAGE = Path(aws.__file__).parent
LAUNCHER = PACKAGE / "ministack_launcher.py"


@pytest.fixture(scope="module")
def python() -> Path:
    return ministack_environment.ensure(ministack_environment.default_environment(), progress=print)


def run(python: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_environment_holds_exactly_the_locked_packages(python: Path) -> None:
    locked = dict(re.findall(r"^([\w.-]+)==([\w.]+)", (PACKAGE / "requirements.txt").read_text(), re.MULTILINE))
    list_all = "import importlib.metadata as m; [print(d.name.lower(), d.version) for d in m.distributions()]"

    found = dict(line.split() for line in run(python, list_all).stdout.splitlines())

    assert found == locked


def test_ready_environment_is_not_built_again(python: Path) -> None:
    told: list[str] = []

    again = ministack_environment.ensure(ministack_environment.default_environment(), progress=told.append)

    assert (again, told) == (python, [])


def test_launcher_refuses_a_ministack_that_has_learnt_one_of_our_types(python: Path) -> None:
    code = f"""
import runpy
from ministack.services.cloudformation import provisioners
provisioners._RESOURCE_HANDLERS["AWS::Events::Archive"] = {{}}
runpy.run_path({str(LAUNCHER)!r})["_teach_cloudformation"]()
"""

    done = run(python, code)

    assert done.returncode == 1
    assert "MiniStack provisions AWS::Events::Archive itself by now: remove our handler" in done.stderr
