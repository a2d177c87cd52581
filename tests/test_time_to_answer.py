"""``scripts/time-to-answer`` on a repository that is set up and answers at once, and on one that never does."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "time-to-answer"
ANSWERS = "mkdir -p .venv penstock-runs/demo-1/results && touch .venv/.installed penstock-runs/demo-1/results/0.parquet && sleep 600"


@pytest.fixture
def repository(tmp_path):
    def made(recipe):
        (tmp_path / "Makefile").write_text(f"run:\n\t@{recipe}\n")
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
        for words in (["init", "-q"], ["add", "Makefile"], ["commit", "-qm", "one"]):
            subprocess.run([*git, *words], check=True)
        return str(tmp_path)

    return made


def measured(source):
    call = [sys.executable, str(SCRIPT), source]
    return subprocess.run(call, capture_output=True, text=True, check=False)


def test_each_part_is_told_and_the_run_is_ended(repository):
    done = measured(repository(ANSWERS))
    assert done.returncode == 0, done.stderr
    seconds = [float(line.split()[0]) for line in done.stdout.splitlines()]
    assert len(seconds) == 4
    assert seconds[3] == pytest.approx(sum(seconds[:3]), abs=0.2)


def test_a_run_without_an_answer_is_told(repository):
    done = measured(repository("echo cannot start"))
    assert done.returncode == 1
    assert "cannot start" in done.stderr
