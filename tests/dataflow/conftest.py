"""Compiled loops load on first use, which takes longer than a property test's deadline."""

from hypothesis import settings

settings.register_profile("compiled", deadline=None)
settings.load_profile("compiled")
