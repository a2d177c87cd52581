"""The sentence of a comparison says what is so: what is saved, or who misses the target."""

from types import SimpleNamespace

from penstock.sim.ranking import recommend


def outcome(policy, late, core_seconds):
    return SimpleNamespace(policy=policy, late=late, core_seconds=core_seconds)


def test_what_is_saved_is_told_where_the_reference_keeps_the_target():
    advice = recommend([outcome("Static", 0.0, 1000.0), outcome("Ds2", 0.01, 400.0)], 3.0, 0.05)
    assert advice.policy == "Ds2"
    assert advice.sentence.endswith("; Static takes 1,000 (60% saved).")


def test_a_cheaper_reference_that_misses_the_target_is_no_negative_saving():
    advice = recommend([outcome("Static", 0.4, 820.0), outcome("Ds2", 0.01, 1000.0)], 3.0, 0.05)
    assert advice.policy == "Ds2"
    assert advice.sentence.endswith("; Static misses the target with 40.0% late for 820 core-seconds.")


def test_a_dearer_reference_that_misses_the_target_is_told_too():
    advice = recommend([outcome("Static", 0.4, 2000.0), outcome("Ds2", 0.01, 1000.0)], 3.0, 0.05)
    assert "Static misses the target with 40.0% late for 2,000 core-seconds" in advice.sentence
    assert "saved" not in advice.sentence
