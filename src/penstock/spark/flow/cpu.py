"""CPU shares of pipelines: a control group for each, which a Python worker joins as its task begins.

Spark gives a pipeline's task to any idle Python worker, so a quota on processes would hold for whatever they happen to
run. Here the worker moves into the group of the pipeline it is about to run (MEAD VI does the same with threads of
operators), and out of it with its next task. Tasks without a quota have a group too, one without a limit.
"""

import atexit
import contextlib
import threading
import uuid
from collections.abc import Mapping

from penstock.core.errors import PenstockError
from penstock.dataflow.layout import Layout, Pipeline
from penstock.dataflow.regions import Region, Regions
from penstock.spark.actuators.cpu_share import CpuShare

#: The group of tasks that have no quota: those of the sources, and of pipelines that were given none.
FREE = ""


class FlowCpu:
    """The control groups of one flow.

    A share is what each replica of a pipeline may use of one core; a pipeline's group gets replicas x share.
    """

    def __init__(self, regions: Regions, shares: Mapping[str, float], groups: CpuShare | None = None) -> None:
        self._regions = regions
        self._shares: dict[str, float] = {}
        self._cpu = groups or CpuShare()
        # Another flow of the same driver has groups in the same folder, and a later one may have the same name.
        self._word = uuid.uuid4().hex[:8]
        self._made: dict[str, float] = {}
        self._pipelines: tuple[Pipeline, ...] = ()
        self._lock = threading.Lock()
        self._folder = self._cpu.group(self._word).path.parent
        atexit.register(
            self.close
        )  # a script that ends without stopping its flow leaves no group behind either
        try:
            self.set(shares)
        except PenstockError:
            self.close()
            raise

    def set(self, shares: Mapping[str, float]) -> None:
        """Shares of regions, by their name or that of an operator; in effect at once where tasks run already."""
        wanted = {self._regions.named(name): float(share) for name, share in shares.items()}
        for region, share in wanted.items():
            _check(region, share)
        with self._lock:
            self._shares |= {region.name: share for region, share in wanted.items()}
            for pipeline in self._pipelines:
                self._group(pipeline)

    def share(self, region: str) -> float | None:
        """The share of each replica of a region; None where it has no limit."""
        return self._shares.get(region)

    def groups(self, layout: Layout) -> dict[str, str]:
        """The folder of each pipeline's group, made and given its quota where needed; ``FREE`` for all others."""
        with self._lock:
            self._pipelines = layout.pipelines
            made = {p.name: self._group(p) for p in layout.pipelines}
            return {FREE: str(self._cpu.group(self._word).path)} | {
                n: path for n, path in made.items() if path
            }

    def _group(self, pipeline: Pipeline) -> str:
        """The group of a pipeline that has a share, with the quota that its replicas come to."""
        share = self._shares.get(pipeline.region)
        if share is None:
            return ""
        name = f"{self._word}-{pipeline.number}"
        cores = share * pipeline.replicas
        if self._made.get(name) != cores:
            self._cpu.group(name).set_quota(cores)
            self._made[name] = cores
        return str(self._cpu.group(name).path)

    def throttled(self) -> dict[str, float]:
        """Seconds that the tasks of each pipeline were held back so far; ``FREE`` for those without a quota."""
        names = {FREE: self._word} | {p.name: f"{self._word}-{p.number}" for p in self._pipelines}
        with self._lock:
            return {
                pipeline: self._cpu.group(name).throttled()[1]
                for pipeline, name in names.items()
                if pipeline == FREE or name in self._made
            }

    def close(self) -> None:
        """Send the workers home and remove the groups."""
        atexit.unregister(self.close)
        with self._lock:
            for name in [self._word, *self._made]:
                self._cpu.remove(name)
            self._made.clear()
            if not any(
                p.is_dir() for p in self._folder.glob("*")
            ):  # else another flow of this driver goes on
                with contextlib.suppress(OSError):
                    self._cpu.close()


def _check(region: Region, share: float) -> None:
    if region.kind == "stateless":
        raise PenstockError(
            f"The region '{region.name}' is stateless and runs in the tasks that feed it; "
            "give a CPU share to a region with state."
        )
    if not share > 0:
        raise PenstockError(
            f"The CPU share of region '{region.name}' must be above 0, not {share}; use 0.4 for 40 % of a core."
        )
