"""A stream in words and numbers: the options that the command line and the Spark source share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import reduce
from typing import Any

import numpy as np

from penstock.core.errors import PenstockError, unknown
from penstock.traffic import shapes
from penstock.traffic.attributes import DISTRIBUTIONS, Attributes, correlation_of
from penstock.traffic.composition import Shaped, Superposition
from penstock.traffic.disorder import disorder
from penstock.traffic.keys import Keys, zipf
from penstock.traffic.markov import map2, poisson
from penstock.traffic.process import ArrivalProcess
from penstock.traffic.selfsimilar import SelfSimilar
from penstock.traffic.shapes import RateShape
from penstock.traffic.stream import TupleStream
from penstock.traffic.walk import RandomWalk

#: Model -> how it is made of a rate, an index of dispersion and a Hurst parameter.
MODELS: dict[str, Callable[[float, float, float], ArrivalProcess]] = {
    "poisson": lambda rate, dispersion, hurst: poisson(rate),
    "map2": lambda rate, dispersion, hurst: map2(rate, dispersion),
    "self-similar": lambda rate, dispersion, hurst: SelfSimilar(rate, hurst),
    "self-similar-independent": lambda rate, dispersion, hurst: SelfSimilar(rate, hurst, independent=True),
    "random-walk": lambda rate, dispersion, hurst: RandomWalk(rate),
}

#: Shape -> its maker and the numbers it needs, with defaults.
SHAPES: dict[str, tuple[Callable[..., RateShape], dict[str, float | None]]] = {
    "step": (lambda at, factor: shapes.steps((at, factor)), {"at": None, "factor": None}),
    "ramp": (shapes.ramp, {"start": None, "end": None, "factor": None}),
    "daily": (shapes.daily, {"period": 86400.0, "amplitude": 0.5}),
    "flash": (shapes.flash_crowd, {"at": None, "peak": None, "rise": 1.0, "decay": 10.0}),
}


@dataclass(frozen=True)
class StreamSpec:
    """Everything that can be asked of a generated stream.

    >>> spec = StreamSpec(model="map2", rate=1000.0, dispersion=100.0, dims=2, delay_mean=0.2, seconds=10.0)
    >>> spec.build().table().column_names
    ['arrival', 'event_time', 'a0', 'a1']
    """

    model: str = "poisson"
    rate: float = 1000.0
    dispersion: float = 100.0
    hurst: float = 0.8
    #: Further streams on top: ``map2:rate=100,dispersion=50``, several with ``;`` between them.
    superpose: str = ""
    #: Shapes of the rate: ``step:at=10,factor=3``, several with ``;`` between them; they multiply.
    shape: str = ""
    dims: int = 0
    #: A word or a correlation; over time ``0:independent,10:anticorrelated``.
    distribution: str = "independent"
    #: Seconds after which the changes of the distribution start over; 0 for never.
    distribution_period: float = 0.0
    keys: int = 0
    zipf: float = 1.0
    #: Frequencies of the keys instead of Zipf, ``5,3,2``; drifting to others, ``5,3,2>2,3,5``.
    key_frequencies: str = ""
    #: Seconds after which keys change places, or frequencies have reached the second set; 0 for no drift.
    key_drift: float = 0.0
    delay: str = "uniform"
    delay_mean: float = 0.0
    seed: int = 0
    #: Length of the stream; 0 for no end.
    seconds: float = 0.0

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "StreamSpec":
        """Read options given as text, as Spark does; names in camel case or with underscores."""
        types = {field.name: field.type for field in fields(cls)}
        names = {name.replace("_", ""): name for name in types}
        values: dict[str, Any] = {}
        for option, text in options.items():
            name = names.get(option.replace("_", "").lower())
            if name is None:
                raise unknown("option", option, [camel(n) for n in types])
            values[name] = number(option, text, whole=types[name] is int) if types[name] is not str else text
        return cls(**values)

    def process(self) -> ArrivalProcess:
        """The arrivals."""
        main = _model(self.model, {"rate": self.rate, "dispersion": self.dispersion, "hurst": self.hurst})
        parts = [_model(*_words(text)) for text in filter(None, self.superpose.split(";"))]
        process = Superposition((main, *parts)) if parts else main
        made = [_shape(*_words(text)) for text in filter(None, self.shape.split(";"))]
        if not made:
            return process
        if len(made) > 1 and self.seconds > 0.0:
            made = [shape.unrolled(self.seconds) for shape in made]
        return Shaped(process, reduce(lambda a, b: a * b, made))

    def build(self, process: ArrivalProcess | None = None) -> TupleStream:
        """The whole stream; of other arrivals than the model's, if given."""
        _check(self)
        return TupleStream(
            process or self.process(),
            disorder(self.delay, self.delay_mean),
            self._keys(),
            self._attributes(),
            seed=self.seed,
            seconds=self.seconds or None,
        )

    def _keys(self) -> Keys | None:
        drift = self.key_drift or None
        if self.key_frequencies:
            sets = [_numbers(part, "keyFrequencies") for part in self.key_frequencies.split(">")]
            return Keys(sets[0], sets[1] if len(sets) > 1 else None, drift)
        return zipf(self.keys, self.zipf, drift) if self.keys else None

    def _attributes(self) -> Attributes | None:
        if not self.dims:
            return None
        text = self.distribution if ":" in self.distribution else f"0:{self.distribution}"
        changes = []
        for part in text.split(","):
            at, _, word = part.partition(":")
            named = correlation_of(word, self.dims) if word in DISTRIBUTIONS else None
            if named is None and not _is_number(word):
                raise unknown("distribution", word, DISTRIBUTIONS)
            changes.append((number("distribution", at), float(word) if named is None else named))
        return Attributes(self.dims, tuple(changes), self.distribution_period or None)


def camel(name: str) -> str:
    """``delay_mean`` to ``delayMean``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def number(option: str, text: str, whole: bool = False) -> float:
    """The number that an option holds, or one sentence."""
    try:
        return int(text) if whole else float(text)
    except ValueError:
        kind = "a whole number" if whole else "a number"
        raise PenstockError(f"Option '{option}' must be {kind}, not '{text}'.") from None


def _check(spec: StreamSpec) -> None:
    if spec.dims < 0 or spec.keys < 0:
        raise PenstockError("The numbers of attributes (dims) and keys cannot be negative; 0 means none.")
    if not 0.0 <= spec.delay_mean < np.inf:
        raise PenstockError(
            f"A mean delay of {spec.delay_mean} seconds is impossible; give a number of zero or more."
        )
    if not 0.0 <= spec.seconds < np.inf:
        raise PenstockError(f"A length of {spec.seconds} seconds is impossible; give a number above zero.")
    for name in ("key_drift", "distribution_period"):
        if not getattr(spec, name) >= 0.0:
            raise PenstockError(
                f"Option '{camel(name)}' must be zero (never) or a number of seconds above zero."
            )


def _model(name: str, given: Mapping[str, float]) -> ArrivalProcess:
    if name not in MODELS:
        raise unknown("model", name, MODELS)
    values = {"rate": 1000.0, "dispersion": 100.0, "hurst": 0.8} | dict(given)
    if len(values) > 3:
        raise unknown(
            "number of a model",
            next(k for k in given if k not in ("rate", "dispersion", "hurst")),
            ["rate", "dispersion", "hurst"],
        )
    return MODELS[name](values["rate"], values["dispersion"], values["hurst"])


def _shape(name: str, given: Mapping[str, float]) -> RateShape:
    if name not in SHAPES:
        raise unknown("rate shape", name, SHAPES)
    make, defaults = SHAPES[name]
    strange = next((key for key in given if key not in defaults), None)
    if strange is not None:
        raise unknown(f"number of the rate shape {name}", strange, defaults)
    missing = [key for key, value in (defaults | dict(given)).items() if value is None]
    if missing:
        raise PenstockError(
            f"The rate shape '{name}' needs {' and '.join(missing)}, as in '{name}:{missing[0]}=10'."
        )
    return make(**(defaults | dict(given)))


def _words(text: str) -> tuple[str, dict[str, float]]:
    """``name:a=1,b=2`` taken apart."""
    name, _, rest = text.strip().partition(":")
    values = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        values[key.strip()] = number(f"{name}:{key.strip()}", value)
    return name, values


def _numbers(text: str, option: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([number(option, part) for part in text.split(",")])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
