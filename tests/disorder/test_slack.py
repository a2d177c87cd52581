"""All strategies: one contract, then what each promises."""

import csv
import gzip
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import PenstockError
from penstock.disorder import AdaptiveSlack, FixedDelay, InOrder, KSlack
from penstock.disorder.adaptive import AIM, EVIDENCE, FULL, LEAST, MEMORY
from penstock.disorder.stats import BatchStats, partition_stats
from penstock.disorder.strategy import Disorder, DisorderState

ALL = [
    KSlack(),
    AdaptiveSlack(),
    AdaptiveSlack(law="linear"),
    AdaptiveSlack(recall=0.9),
    FixedDelay("2 seconds"),
    InOrder(),
]
STREAMS = st.lists(st.lists(st.integers(0, 10**7), max_size=12), max_size=8)


def drive(strategy, batches):
    """States after each batch."""
    state = strategy.start()
    for times in batches:
        state = strategy.step(state, partition_stats(times, state.t_max, state.punctuation))
        yield state


@pytest.mark.parametrize("strategy", ALL)
@given(batches=STREAMS)
def test_punctuations_never_go_back_and_never_pass_the_largest_time(strategy, batches):
    last = None
    for state in drive(strategy, batches):
        if state.punctuation is not None:
            assert state.punctuation <= state.t_max
            assert last is None or state.punctuation >= last
        last = state.punctuation


@pytest.mark.parametrize("strategy", ALL)
@given(batches=STREAMS)
def test_a_step_is_a_function_of_state_and_batch(strategy, batches):
    state = strategy.start()
    for times in batches:
        stats = partition_stats(times, state.t_max, state.punctuation)
        after = strategy.step(state, stats)
        copied = DisorderState.from_json(json.loads(json.dumps(state.to_json())))
        assert strategy.step(copied, stats) == after
        state = after


@pytest.mark.parametrize("strategy", ALL)
def test_an_empty_batch_changes_nothing(strategy):
    *_, state = drive(strategy, [[5, 9, 7]])
    assert strategy.step(state, BatchStats()) == state
    assert strategy.step(strategy.start(), BatchStats()) == strategy.start()


@pytest.mark.parametrize("strategy", ALL)
def test_every_strategy_fulfils_the_interface(strategy):
    assert isinstance(strategy, Disorder)


@given(STREAMS)
def test_k_slack_waits_for_the_longest_delay_seen(batches):
    highest, longest = None, 0
    states = drive(KSlack(), batches)
    for times, state in zip(batches, states, strict=True):
        for time in times:
            highest = time if highest is None else max(highest, time)
            longest = max(longest, highest - time)
        assert state.slack == longest
        assert highest is None or state.punctuation >= highest - longest


def test_a_bounded_delay_that_was_seen_once_loses_nothing_afterwards():
    rng = np.random.default_rng(0)
    times = np.arange(200_000) * 50
    arrived = times[np.argsort(times + rng.uniform(0, 400_000, len(times)))]
    *_, state = drive(KSlack(), np.array_split(arrived, 100))
    assert state.dropped_share < 1e-4


def test_a_fixed_delay_is_what_spark_calls_a_watermark():
    *_, state = drive(FixedDelay("2 seconds"), [[0, 5_000_000], [4_000_000]])
    assert state.punctuation == 3_000_000


def long_tail(rows=200_000):
    rng = np.random.default_rng(3)
    times = np.cumsum(rng.exponential(50, rows)).astype(np.int64)
    return times[np.argsort(times + np.minimum(np.exp(rng.normal(9, 1.5, rows)), 5e6))]


@pytest.mark.parametrize("law", ["quantile", "linear"])
@pytest.mark.parametrize("drop", [0.01, 0.02, 0.05])
def test_the_drop_target_is_met_and_saves_most_of_the_wait(law, drop):
    arrived = long_tail()
    batches = np.array_split(arrived, 200)
    states = list(drive(AdaptiveSlack(drop, law=law), batches))
    patient = list(drive(KSlack(), batches))
    late = (states[-1].late - states[99].late) / (states[-1].rows - states[99].rows)
    assert late == pytest.approx(drop, rel=0.15)
    waits = [np.mean([s.t_max - s.punctuation for s in run[100:]]) for run in (states, patient)]
    assert waits[0] < 0.2 * waits[1]


def test_flights_with_a_drop_target_of_one_percent_wait_a_seventh_of_k_slack(recorded):
    with gzip.open(recorded / "nycflights13_ooo.csv.gz", "rt") as lines:
        times = np.array([int(float(row["sched_dep_min"])) for row in csv.DictReader(lines)]) * 60_000_000
    batches = [times[i : i + 50] for i in range(0, len(times), 50)]
    states = list(drive(AdaptiveSlack(0.01), batches))
    patient = list(drive(KSlack(), batches))
    assert states[-1].dropped_share == pytest.approx(0.01, rel=0.2)
    waits = [np.mean([s.t_max - s.punctuation for s in run[50:]]) for run in (states, patient)]
    assert waits[0] < 1 / 7 * waits[1]


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: AdaptiveSlack(0), "drop target"),
        (lambda: AdaptiveSlack(1.5), "drop target"),
        (lambda: AdaptiveSlack(law="magic"), "Unknown law"),
        (lambda: FixedDelay("0 seconds"), "longer than zero"),
        (lambda: FixedDelay("a while"), "not understood"),
    ],
)
def test_settings_that_make_no_sense_are_refused(build, says):
    with pytest.raises(PenstockError, match=says):
        build()


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0, 5.0, 30.0])
def test_by_recall_the_loss_comes_to_its_target_however_likely_late_rows_are_in_answers(share):
    """``share``: answers lose so many times the share of the rows that is given up; windows are judged five later."""
    rng = np.random.default_rng(1)
    slack = AdaptiveSlack(recall=0.98)
    state, asked, lost = slack.start(), [], []
    for window in range(600):
        asked.append(state.given_up)
        then = asked[max(0, window - 5)]
        lost.append(int(rng.binomial(60, min(1.0, share * then))))
        state = slack.judge(state, 60, lost[-1], then)
    assert 0.5 * 0.02 < np.mean(lost[300:]) / 60 < 1.1 * 0.02


@given(st.lists(st.tuples(st.integers(0, 500), st.floats(0, 1), st.floats(0, 1)), max_size=30))
def test_by_recall_what_is_given_up_is_always_a_share(judged):
    slack = AdaptiveSlack(recall=0.99)
    state = slack.start()
    for rows, lost, given_up in judged:
        state = slack.judge(state, rows, int(rows * lost), given_up)
        assert 0 < state.given_up <= 1
        assert DisorderState.from_json(json.loads(json.dumps(state.to_json()))) == state


def test_a_recall_is_judged_by_the_rows_that_were_lost():
    slack = AdaptiveSlack(recall=0.99)

    def asked(rows, lost, given_up=0.02, state=None):
        return slack.judge(state or slack.start(), rows, lost, given_up)

    assert asked(0, 0) == slack.start()
    just = asked(100_000, 1_000)  # as much as may be: somewhat less is given up, to be sure
    assert just.given_up == pytest.approx(0.02 * AIM, rel=0.01)
    assert asked(100_000, 2_000).given_up == pytest.approx(just.given_up / 2, rel=0.01)
    few = asked(100, 0)  # hardly anything is known: one row at the target stands for what was known before
    assert few.given_up == pytest.approx(0.02 * AIM * 0.01 * 200, rel=1e-9)
    again = asked(100_000, 0, 0.04, just)
    kept = math.exp(-100_000 * 0.01 / EVIDENCE)
    assert again.judged_rows == pytest.approx(100_000 * (1 + kept))
    assert again.judged_lost == pytest.approx(1_000 * kept)
    assert again.judged_given_up == pytest.approx(100_000 * (0.04 + 0.02 * kept))
    assert asked(100_000, 100_000).given_up >= LEAST * 0.009
    assert asked(1_000_000, 0, given_up=5.0).given_up == 1.0


def test_late_rows_are_waited_for_until_a_tenth_of_what_may_be_lost_is_left():
    slack = AdaptiveSlack(recall=0.9)
    state = replace(slack.start(), delays=((0, 900), (10, 50), (20, 45), (31, 5)), slack=31)
    assert slack.hold(state) == 20  # 99.5 % of the rows have come by then
    assert slack.hold(replace(state, slack=15)) == 15
    assert AdaptiveSlack().hold(state) == 0  # without a recall: the least that covers nine tenths


def test_a_delay_that_cannot_be_read_is_named():
    with pytest.raises(PenstockError, match=r"\bdelay\b"):
        FixedDelay("soon")


def batch(rows, late, slack=1_000):
    return BatchStats(rows=rows, late=late, t_max=slack, max_delay=slack, delays=((0, rows),))


def test_what_is_given_up_follows_the_share_of_late_rows():
    """By quantile: the error times the gain; linear: proportional, sum and difference; both within 0 and 1."""
    slack = AdaptiveSlack(drop=0.1, gain=2.0)
    first = slack.step(slack.start(), batch(100, 4))
    assert first.given_up == pytest.approx(2.0 * 0.06)
    assert slack.step(first, batch(100, 20)).given_up == 0.0
    assert slack.step(replace(first, given_up=0.95), batch(100, 0)).given_up == 1.0
    linear = AdaptiveSlack(drop=0.1, law="linear", kp=1.0, ki=0.5, kd=0.25)
    first = linear.step(linear.start(), batch(100, 4))
    assert first.given_up == pytest.approx(0.06 + 0.5 * 0.06 + 0.25 * 0.06)
    assert (first.total_error, first.last_error) == (pytest.approx(0.06), pytest.approx(0.06))
    second = linear.step(first, batch(100, 8))
    change = 0.02 + 0.5 * 0.08 + 0.25 * (0.02 - 0.06)
    assert second.given_up == pytest.approx(first.given_up + change)
    assert second.punctuation == 1_000 - round((1 - second.given_up) * 1_000)


@pytest.mark.parametrize("recall", [0.0, 1.0, 1.5])
def test_a_recall_must_be_a_share(recall):
    with pytest.raises(
        PenstockError, match=rf"^The recall is {recall}; choose a share between 0 and 1, like 0.99\.$"
    ):
        AdaptiveSlack(recall=recall)


def test_a_recall_goes_with_no_other_option():
    with pytest.raises(
        PenstockError, match=r"^A slack by recall has no other options; write AdaptiveSlack\(recall"
    ):
        AdaptiveSlack(recall=0.9, drop=0.2)


def test_the_text_of_a_slack_is_its_identity():
    assert repr(AdaptiveSlack(recall=0.9)) == "AdaptiveSlack(recall=0.9)"
    assert (
        repr(AdaptiveSlack()) == "AdaptiveSlack(drop=0.01, law='quantile', gain=1.0, kp=6.0, ki=0.6, kd=0.2)"
    )


def test_a_law_or_drop_target_that_is_none_is_refused():
    assert AdaptiveSlack(law="linear").law == "linear"
    with pytest.raises(
        PenstockError, match=r"law of the adaptive slack.*'cubic'; choose one of linear, quantile\.$"
    ):
        AdaptiveSlack(law="cubic")
    for drop in (0.0, 1.0):
        with pytest.raises(PenstockError, match=f"^The drop target is {drop}; "):
            AdaptiveSlack(drop=drop)


def test_delays_fade_with_every_batch_that_has_rows():
    slack = AdaptiveSlack()
    first = slack.step(
        slack.start(), BatchStats(rows=100, t_max=50, max_delay=20, delays=((0, 90), (20, 10)))
    )
    assert first.slack == 20
    second = slack.step(first, BatchStats(rows=10, t_max=60, max_delay=5, delays=((5, 10),)))
    assert second.slack == 20
    faded = MEMORY ** (10 / FULL)  # a batch of few rows says little
    assert dict(second.delays) == pytest.approx({0: 90 * faded, 20: 10 * faded, 5: 10}, rel=1e-4)
    # By quantile a tenth may be given up, or K is waited for where nothing is.
    for given_up, wait in ((0.0, 20), (0.5, 0)):
        state = replace(second, given_up=given_up)
        assert slack._wait(state) == wait


def test_what_was_judged_before_fades_with_the_rows_that_may_be_lost():
    slack = AdaptiveSlack(recall=0.9)
    state = slack.judge(slack.start(), rows=50, lost=5, given_up=0.1)
    state = slack.judge(state, rows=100, lost=5, given_up=0.2)
    kept = math.exp(-100 * 0.1 / EVIDENCE)
    assert state.judged_rows == pytest.approx(50 * kept + 100)
    assert state.judged_lost == pytest.approx(5 * kept + 5)
    assert state.judged_given_up == pytest.approx(50 * 0.1 * kept + 100 * 0.2)


def test_with_nothing_given_up_the_longest_delay_is_waited_for_and_with_everything_less():
    slack = AdaptiveSlack(drop=0.5)
    *_, state = drive(slack, [[10_000_000, 9_000_000, 8_000_000, 10_000_001]])
    assert slack._wait(replace(state, given_up=0.0)) == state.slack > 0
    assert slack._wait(replace(state, given_up=1.0)) < state.slack


def test_rows_and_late_rows_of_all_batches_are_counted():
    state = KSlack().step(KSlack().start(), batch(10, 3))
    state = KSlack().step(state, batch(5, 2))
    assert (state.rows, state.late) == (15, 5)


def test_an_hour_of_delay_that_was_once_is_forgotten():
    """Counts in whole numbers kept up to four rows of every delay for ever."""
    slack = AdaptiveSlack(recall=0.99)
    state = slack.start()
    hour = partition_stats([3_600_000_000] * 996 + [0] * 4)
    calm = partition_stats([3_600_000_000] * 100)
    for stats in (hour, *[calm] * 200):
        state = slack.step(state, stats)
    assert slack.hold(state) == 0
