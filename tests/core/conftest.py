"""A busy machine makes single examples slow; how long a property test takes in all is what matters."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
