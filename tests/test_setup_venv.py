"""``scripts/setup-venv`` where the environment is there in part."""

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "setup-venv"


def program(place, code):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"#!/bin/sh\n{code}\n")
    place.chmod(0o755)


@pytest.mark.parametrize(("pip", "made"), [("exit 1", True), ('echo "$@" >> installed', False)])
def test_an_environment_whose_making_was_interrupted_is_made_again_and_a_whole_one_is_left(
    tmp_path, pip, made
):
    program(tmp_path / "whole", 'echo "$@" >> installed')
    program(tmp_path / "python", '[ "$2" = venv ] || exit 0\ntouch made\ncp whole "$3/bin/python"')
    program(tmp_path / ".venv" / "bin" / "python", pip)
    done = subprocess.run(
        [SCRIPT, "./python", ".venv"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--require-hashes -r requirements.lock" in (tmp_path / "installed").read_text()
    assert (tmp_path / "made").exists() is made
