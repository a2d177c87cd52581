"""What differs between two plans of a flow, in the words of the control loop."""

from penstock.core.capacity import Knob, KnobValue
from penstock.core.decision import Change
from penstock.dataflow.plan import Plan


def changes_between(before: Plan, after: Plan) -> list[Change]:
    """What differs between two plans, as changes of knobs."""
    made = []
    for name, new in after.regions.items():
        old = before.regions[name]
        if new.replicas != old.replicas:
            made.append(Change(Knob.WORKERS, name, new.replicas))
        if new.pipelines != old.pipelines:
            made.append(Change(Knob.PIPELINES, name, new.pipelines))
        if new.routing != old.routing:
            made.append(Change(Knob.ROUTING, name, new.routing))
    return made


def knob_value(plan: Plan, change: Change) -> KnobValue:
    """What a plan has for the knob and place of a change."""
    region = plan.regions[change.where]
    values: dict[Knob, KnobValue] = {
        Knob.WORKERS: float(region.replicas),
        Knob.PIPELINES: region.pipelines,
        Knob.ROUTING: region.routing,
    }
    return values[change.knob]
