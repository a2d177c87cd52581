"""The names that programs outside the repository rely on."""

import penstock


def test_every_public_name_loads():
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(penstock, "no_such_name")
