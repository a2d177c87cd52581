"""Property tests: no deadline for one example (compiled loops load on first use), and in CI the same examples each time."""

import os

from hypothesis import settings

settings.register_profile(
    "penstock", deadline=None, derandomize=os.environ.get("CI") == "true", print_blob=True
)
settings.load_profile("penstock")
