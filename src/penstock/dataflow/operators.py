"""What an operator is: state kind, ports, schemas, scheduling need, and the three methods (Joker 3.1).

Two grains with the same meaning:

- ``grain="key"``: :meth:`Operator.invoke` gets the tuples and the state of one key. Simple, one Python call a key.
- ``grain="table"``: it gets a table with the tuples of many keys and their states as columns. Fast.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, overload

import pyarrow as pa

from penstock.core.belief import DAY, Limits
from penstock.core.errors import PenstockError
from penstock.dataflow.firing import FiringRule
from penstock.dataflow.schemas import SchemaLike, default_of, schema_of

Kind = Literal["stateless", "stateful", "partitioned"]
Grain = Literal["key", "table"]
OnError = Literal["fail", "dead-letter"]
#: The schema of an output port: given, or made from the schemas of the input ports, or None for "as the first input".
OutputSchema: TypeAlias = Any
#: A call for a key whose time has come: its key columns, its state, the output.
KeyCall: TypeAlias = Callable[[Any, Any, Any], None]
#: A column or several.
Names: TypeAlias = str | Sequence[str]

#: Hidden columns begin so; user columns may not.
HIDDEN = "__"


@dataclass(frozen=True)
class Context:
    """What an operator is told once before its first call in a process."""

    name: str
    inputs: Mapping[str, pa.Schema]
    outputs: Mapping[str, pa.Schema]
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Ttl:
    """Forget a key whose newest tuple, by an event time column, is this many seconds behind the newest of all."""

    column: str
    seconds: float

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise PenstockError(
                f"A time to live of {self.seconds} seconds keeps nothing; give a positive number."
            )


@dataclass(frozen=True)
class StateColumn:
    """One typed column of a keyed state."""

    name: str
    type: pa.DataType
    default: Any = None


@dataclass(frozen=True)
class Spec:
    """The declared properties of an operator: all that the runtime goes by."""

    kind: Kind = "stateless"
    keys: tuple[str, ...] = ()
    inputs: Mapping[str, pa.Schema | None] = field(default_factory=lambda: {"in": None})
    outputs: Mapping[str, OutputSchema] = field(default_factory=lambda: {"out": None})
    #: Typed columns (needed for grain "table"), or None: the state of a key is a free dictionary.
    state: tuple[StateColumn, ...] | None = None
    need: FiringRule = field(default_factory=FiringRule)
    grain: Grain = "table"
    ttl: Ttl | None = None
    #: Columns that the operator passes on under the same name but with other values.
    changes: tuple[str, ...] = ()
    on_error: OnError = "fail"
    #: The column of the event time by which timers go; that of the time to live where there is one.
    time: str | None = None
    on_timer: KeyCall | None = None
    on_expiry: KeyCall | None = None
    #: Seconds that a tuple may be ahead of all others by event time; None: a day, or the time to live if that is longer.
    ahead: float | None = None

    @property
    def limits(self) -> Limits:
        """Which event times are believed; how far behind a tuple is matters to its own key only."""
        usual = max(DAY, 0 if self.ttl is None else int(self.ttl.seconds * 1e6))
        return Limits(usual if self.ahead is None else int(self.ahead * 1e6))

    @property
    def event_time(self) -> str | None:
        """The column of the event time, where the operator goes by one."""
        return self.time if self.ttl is None else self.ttl.column

    @property
    def watches(self) -> bool:
        """Whether keys may have to be called for though no tuples came."""
        return self.on_timer is not None or self.on_expiry is not None

    def __post_init__(self) -> None:
        problem = _problem(self)
        if problem:
            raise PenstockError(problem)


class Properties(TypedDict, total=False):
    """What :func:`operator` takes, for those who pass it on; None is the same as not given."""

    keys: Names | None
    stateful: bool
    state: Mapping[str, Any] | None
    inputs: Sequence[str] | Mapping[str, SchemaLike | None] | None
    output: OutputSchema
    outputs: Mapping[str, OutputSchema] | None
    need: FiringRule | None
    grain: Grain | None
    ttl: Ttl | tuple[str, float] | None
    changes: Names | None
    on_error: OnError | None
    time: str | None
    on_timer: KeyCall | None
    on_expiry: KeyCall | None
    ahead: float | None


def _problem(spec: Spec) -> str | None:
    if spec.kind == "partitioned" and not spec.keys:
        return "A partitioned operator needs key columns; give keys=[...]."
    if spec.kind != "partitioned" and spec.keys:
        return f"A {spec.kind} operator has no key columns; leave out keys or stateful."
    if not spec.inputs:
        return "An operator needs at least one input port; data enters a flow by flow.source()."
    if spec.grain not in ("key", "table"):
        return f"The grain of an operator is 'key' or 'table', not {spec.grain!r}."
    if spec.on_error not in ("fail", "dead-letter"):
        return f"on_error is 'fail' or 'dead-letter', not {spec.on_error!r}."
    if spec.kind == "stateless" and spec.state is not None:
        return "A stateless operator has no state columns; give keys=[...] or stateful=True."
    if spec.kind == "stateless" and not spec.need.immediate:
        return "An operator that waits for tuples keeps them as state; give keys=[...] or stateful=True."
    if spec.kind != "stateless" and spec.grain == "table" and spec.state is None:
        return (
            "An operator of grain 'table' needs typed state columns; give state={name: type} or grain='key'."
        )
    if spec.kind == "stateless" and spec.watches:
        return "A stateless operator has no keys that a timer could be for; give keys=[...] or stateful=True."
    if spec.on_expiry is not None and spec.ttl is None:
        return "on_expiry is called when a time to live is over; give ttl=(column, seconds)."
    if spec.ahead is not None and not 0 < spec.ahead < inf:
        return f"A tuple cannot be believed up to {spec.ahead} seconds ahead; give a positive number."
    strange = set(spec.need.counts or {}) - set(spec.inputs)
    if strange:
        return f"The need names the port '{min(strange)}' but the ports are {', '.join(spec.inputs)}."
    if spec.need.mode == "all" and set(spec.need.counts or {}) != set(spec.inputs):
        return f"A need for all ports must name each of {', '.join(spec.inputs)}."
    return None


class Operator(ABC):
    """Base of all operators: subclass it, or decorate a function with :func:`operator`."""

    spec: Spec = Spec()

    def initialize(self, context: Context) -> None:  # noqa: B027 - a hook that few need
        """Called once in each process before the first call; build what cannot be sent between processes here."""

    @abstractmethod
    def invoke(self, inputs: Any, state: Any, output: Any) -> None:
        """Process tuples: read ``inputs``, read and change ``state``, give rows to ``output``."""

    @property
    def call(self) -> Callable[[Any, Any, Any], None]:
        """What the runtime calls: :meth:`invoke`, or what it would call, by the shortest way."""
        return self.invoke

    def shutdown(self) -> None:  # noqa: B027 - a hook that few need
        """Called when the process will not use the operator any more."""

    @property
    def label(self) -> str:
        """The name the operator gets in a flow unless another is given."""
        return type(self).__name__

    def composed(self, **given: Unpack[Properties]) -> "Operator":
        """The same operator with properties that are only known when the flow is put together.

        Takes what :func:`operator` takes, for example ``keys=["symbol"]`` or ``output={"price": float}``.
        """
        twin = copy.copy(self)
        twin.spec = make_spec(self.spec, given)
        return twin


class FunctionOperator(Operator):
    """An operator whose call is a plain function ``(inputs, state, output)``, or ``(inputs, output)`` without state."""

    def __init__(self, function: Callable[..., None], spec: Spec) -> None:
        self.function = function
        self.spec = spec

    @property
    def label(self) -> str:
        """The function's name."""
        return self.function.__name__

    def invoke(self, inputs: Any, state: Any, output: Any) -> None:
        """Call the function."""
        if self.spec.kind == "stateless":
            self.function(inputs, output)
        else:
            self.function(inputs, state, output)

    @property
    def call(self) -> Callable[[Any, Any, Any], None]:
        """The function itself where it has a state."""
        plain = type(self).invoke is FunctionOperator.invoke and self.spec.kind != "stateless"
        return self.function if plain else self.invoke


Derived = TypeVar("Derived", bound=Operator)


class Declaration(Protocol):
    """What :func:`operator` gives: a decorator of functions and of subclasses of :class:`Operator`."""

    @overload
    def __call__(self, target: type[Derived]) -> type[Derived]: ...
    @overload
    def __call__(self, target: Callable[..., None]) -> FunctionOperator: ...


def operator(
    *,
    keys: Names | None = None,
    stateful: bool = False,
    state: Mapping[str, Any] | None = None,
    inputs: Sequence[str] | Mapping[str, SchemaLike | None] | None = None,
    output: OutputSchema = None,
    outputs: Mapping[str, OutputSchema] | None = None,
    need: FiringRule | None = None,
    grain: Grain | None = None,
    ttl: Ttl | tuple[str, float] | None = None,
    changes: Names | None = None,
    on_error: OnError | None = None,
    time: str | None = None,
    on_timer: KeyCall | None = None,
    on_expiry: KeyCall | None = None,
    ahead: float | None = None,
) -> Declaration:
    """Declare an operator: decorates a function, or a subclass of :class:`Operator`.

    Parameters
    ----------
    keys
        Columns whose values have a state of their own; makes the operator partitioned.
    stateful
        True: one state for all tuples.
    state
        Names of the state's columns with types, or with (type, default). Without it (grain "key" only) the state is
        a dictionary that may hold anything that can be pickled.
    inputs
        Ports with the columns each needs; a sequence of names, or a mapping to schemas. One port ``in`` by default.
    output, outputs
        The schema of the one output, or a mapping of output ports to schemas. None: the columns of the first input.
    need
        The firing rule: tuples needed for a call, :func:`penstock.need_all` or :func:`penstock.need_any`.
    grain
        "table" (default) or "key".
    ttl
        ``(column, seconds)``, see :class:`Ttl`.
    changes
        Columns whose values the operator changes though they keep their names; matters where they are keys.
    on_error
        "fail" (default): the run ends and the tuple is shown; "dead-letter": the tuples are put aside and it goes on.
    time, on_timer
        ``on_timer(key, state, output)`` is called when the time of ``state.timer(at)`` has come; ``time`` names the
        column of the event time (that of ``ttl`` by default).
    on_expiry
        ``on_expiry(key, state, output)`` is called before a key is forgotten because its ``ttl`` is over.
    ahead
        Tuples more than so many seconds ahead of all others by event time are not believed and become dead letters,
        unless many confirm it. A day by default, or the time to live if that is longer.

    >>> @operator(keys=["word"], state={"count": int}, output={"word": str, "count": int})
    ... def count(rows, state, output): ...
    >>> count.spec.kind, count.label
    ('partitioned', 'count')
    """
    given = Properties(
        keys=keys,
        stateful=stateful,
        state=state,
        inputs=inputs,
        output=output,
        outputs=outputs,
        need=need,
        grain=grain,
        ttl=ttl,
        changes=changes,
        on_error=on_error,
        time=time,
        on_timer=on_timer,
        on_expiry=on_expiry,
        ahead=ahead,
    )

    @overload
    def decorate(target: type[Derived]) -> type[Derived]: ...
    @overload
    def decorate(target: Callable[..., None]) -> FunctionOperator: ...
    def decorate(target: Any) -> Any:
        if isinstance(target, type) and issubclass(target, Operator):
            target.spec = make_spec(target.spec, given)
            return target
        if not callable(target):
            raise PenstockError("@penstock.operator decorates a function or a subclass of penstock.Operator.")
        return FunctionOperator(target, make_spec(Spec(), given))

    return decorate


def make_spec(base: Spec, given: Properties) -> Spec:
    """A spec with the properties as a user writes them laid over ``base``."""
    for name in given:
        if name not in Properties.__annotations__:
            raise TypeError(f"an operator got an unexpected keyword argument '{name}'")
    made: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    values: dict[str, Any] = {name: getattr(base, name) for name in Spec.__dataclass_fields__}
    if "keys" in made:
        values |= {"keys": names_of(made["keys"], "keys"), "kind": "partitioned"}
    if made.get("stateful"):
        values["kind"] = "stateful"
    if "state" in made:
        values["state"] = _state(made["state"])
    if "inputs" in made:
        values["inputs"] = _inputs(made["inputs"])
    if "output" in made:
        values["outputs"] = {"out": _output(made["output"])}
    if "outputs" in made:
        values["outputs"] = {str(port): _output(schema) for port, schema in made["outputs"].items()}
    if "ttl" in made:
        ttl = made["ttl"]
        values["ttl"] = ttl if isinstance(ttl, Ttl) else Ttl(str(ttl[0]), float(ttl[1]))
    if "changes" in made:
        values["changes"] = names_of(made["changes"], "changes")
    values |= {
        name: made[name]
        for name in ("need", "grain", "on_error", "time", "on_timer", "on_expiry", "ahead")
        if name in made
    }
    return Spec(**values)


def names_of(value: Any, what: str) -> tuple[str, ...]:
    """One name or several as a tuple, each once."""
    if isinstance(value, str):
        value = [value]
    names = tuple(str(name) for name in value)
    if len(set(names)) < len(names):
        raise PenstockError(f"A column stands twice in {what}={list(names)}; name each once.")
    return names


def _state(value: Mapping[str, Any]) -> tuple[StateColumn, ...]:
    columns = []
    for name, kind in value.items():
        if str(name).startswith(HIDDEN):
            raise PenstockError(
                f"The state column '{name}' begins with '__', which the runtime uses; rename it."
            )
        given, default = kind if isinstance(kind, tuple) else (kind, None)
        type_ = schema_of({name: given}).field(0).type
        columns.append(StateColumn(str(name), type_, default_of(type_) if default is None else default))
    return tuple(columns)


def _inputs(value: Sequence[str] | Mapping[str, SchemaLike | None]) -> dict[str, pa.Schema | None]:
    if isinstance(value, Mapping):
        return {str(port): None if schema is None else schema_of(schema) for port, schema in value.items()}
    return dict.fromkeys(names_of(value, "inputs"))


def _output(value: OutputSchema) -> OutputSchema:
    return value if value is None or callable(value) else schema_of(value)
