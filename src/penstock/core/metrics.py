"""What can be measured, each with its unit, its meaning in one line and which way is better."""

from enum import StrEnum


class Metric(StrEnum):
    """One measurable quantity; its value is the name of the field that carries it in observations and journals.

    >>> Metric.LATENCY_P95.unit, Metric.LATENCY_P95.better
    ('s', -1)
    >>> Metric("utilisation") is Metric.UTILISATION
    True
    """

    unit: str
    better: int
    meaning: str

    def __new__(cls, value: str, unit: str, better: int, meaning: str) -> "Metric":
        """Keep unit, direction (-1 lower is better, +1 higher is better, 0 neither) and meaning beside the name."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.unit, member.better, member.meaning = unit, better, meaning
        return member

    # Load
    ARRIVAL_RATE = ("arrival_rate", "tuples/s", 0, "tuples that arrived, per second of the period")
    ARRIVAL_SCV = ("arrival_scv", "1", 0, "squared coefficient of variation of the inter-arrival times")
    ARRIVAL_DISPERSION = (
        "arrival_dispersion",
        "1",
        0,
        "index of dispersion of counts; 1 for Poisson, more when bursty",
    )
    # Work
    THROUGHPUT = ("throughput", "tuples/s", +1, "tuples completely processed, per second of the period")
    TUPLES_IN = ("tuples_in", "tuples", 0, "tuples that the workers took from their queues")
    TUPLES_OUT = ("tuples_out", "tuples", 0, "tuples or results given out during the period")
    BUSY_TIME = ("busy_time", "s", -1, "time spent working, summed over the workers")
    SERVICE_TIME = (
        "service_time",
        "s",
        -1,
        "mean computation time a tuple on one worker at the present CPU speed",
    )
    SERVICE_SCV = ("service_scv", "1", 0, "squared coefficient of variation of the computation time")
    UTILISATION = (
        "utilisation",
        "1",
        0,
        "arrivals over what could be served; above 1 the stage falls behind",
    )
    BACKLOG = ("backlog", "tuples", -1, "tuples waiting at the end of the period")
    CONGESTION = ("congestion", "1", -1, "share of the period in which the splitter could not send on")
    SPLITTING = ("splitting", "1", -1, "partitions a pane was cut into, on average")
    FILTER_RATIO = ("filter_ratio", "1", 0, "tuples that survive the pane stage over tuples that entered it")
    LOAD_BALANCE = ("load_balance", "1", -1, "load of the fullest worker over the mean load; 1 is even")
    # Time
    LATENCY_MEAN = ("latency_mean", "s", -1, "mean response time: arrival to result")
    LATENCY_P50 = ("latency_p50", "s", -1, "median response time")
    LATENCY_P95 = ("latency_p95", "s", -1, "95th percentile of the response time")
    LATENCY_P99 = ("latency_p99", "s", -1, "99th percentile of the response time")
    LATENCY_MAX = ("latency_max", "s", -1, "largest response time of the period")
    WAITING_TIME = ("waiting_time", "s", -1, "mean time a tuple waits before its service begins")
    CLOSING_LAG = ("closing_lag", "s", -1, "how far the newest closed pane is behind the newest tuple")
    ANSWER_LAG = ("answer_lag", "s", -1, "from the end of a window plus the slack to its committed answer")
    OVERHEAD_TIME = (
        "overhead_time",
        "s",
        -1,
        "time of the period that the engine spent outside the operators",
    )
    # Loss
    DROPPED_SHARE = (
        "dropped_share",
        "1",
        -1,
        "tuples that came too late and were set aside, over all tuples",
    )
    SHED_SHARE = ("shed_share", "1", -1, "tuples dropped on purpose by load shedding, over all tuples")
    # Resources
    WORKERS = ("workers", "workers", -1, "workers that really work now")
    EXECUTORS = ("executors", "executors", -1, "executors of the application that are registered now")
    CPU_SHARE = ("cpu_share", "1", -1, "share of one core that a worker may use; 1 is the whole core")
    FREQUENCY = ("frequency", "GHz", 0, "operating frequency of the cores")
    POWER = ("power", "W", -1, "power drawn, measured or modelled")
    STATE_SIZE = ("state_size", "bytes", -1, "state kept for the query or the stage")
    THINKING = ("thinking", "cores", -1, "cores that a policy in a process of its own took during the period")
    CHANGE_PAUSE = ("change_pause", "s", -1, "how long the last change held tuples back")

    @classmethod
    def of_response(cls, percentile: float | None) -> "Metric":
        """The response time of that kind: the mean where no percentile is given, else the nearest that plants tell.

        >>> print(Metric.of_response(0.99), Metric.of_response(None))
        latency_p99 latency_mean
        """
        if percentile is None:
            return cls.LATENCY_MEAN
        told = {0.5: cls.LATENCY_P50, 0.95: cls.LATENCY_P95, 0.99: cls.LATENCY_P99}
        return told[min(told, key=lambda p: abs(p - percentile))]
