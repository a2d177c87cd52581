"""A folder that one may not search; tests may run as root, whom no permission stops."""

import os
from pathlib import Path


def lock(monkeypatch, folder):
    """Refuse to look at what is in a folder; gives a path in there."""
    real = os.stat

    def stat(path, *words, **options):
        if not isinstance(path, int) and folder in Path(os.fsdecode(path)).parents:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *words, **options)

    monkeypatch.setattr(os, "stat", stat)
    return folder / "file"
