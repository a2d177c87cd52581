"""A cluster manager by hand, for what asks for executors."""

from functools import partial
from types import SimpleNamespace
from unittest.mock import MagicMock


class Manager:
    """A cluster manager by hand: executors come when told, leave when killed."""

    def __init__(self, count=1, master="spark://x:1", **conf):
        self.ids = [str(i) for i in range(count)]
        self.next, self.requests, self.killed, self.busy, self.decommissioned = count, [], [], set(), []
        self.conf = conf
        self.context = SimpleNamespace(
            statusStore=lambda: SimpleNamespace(
                executorList=lambda active: _Seq([self._summary(i) for i in self.ids])
            ),
            schedulerBackend=lambda: self,
            requestTotalExecutors=lambda n, *rest: self.requests.append(n) or True,
        )
        jvm = MagicMock()
        jvm.scala.jdk.javaapi.CollectionConverters.asScala.side_effect = lambda v: SimpleNamespace(
            toSeq=lambda: v
        )
        self.session = SimpleNamespace(
            sparkContext=SimpleNamespace(
                _jsc=SimpleNamespace(sc=lambda: self.context),
                _jvm=jvm,
                master=master,
                getConf=lambda: SimpleNamespace(get=lambda k, d=None: self.conf.get(k, d)),
            ),
            conf=SimpleNamespace(get=lambda k, d=None: self.conf.get(k, d)),
        )

    def _summary(self, id_):
        told = {"id": id_, "hostPort": "h:1", "totalCores": 1, "activeTasks": int(id_ in self.busy)}
        told |= {
            "totalDuration": 0,
            "rddBlocks": 0,
            "addTime": SimpleNamespace(getTime=lambda: int(id_) * 1000),
        }
        return SimpleNamespace(**{k: partial(lambda value: value, v) for k, v in told.items()})

    def arrive(self, count=1):
        for _ in range(count):
            self.ids.append(str(self.next))
            self.next += 1

    def isExecutorActive(self, id_):
        return id_ not in self.decommissioned

    def getExecutorIds(self):
        return SimpleNamespace(contains=lambda id_: id_ in self.ids)

    def killExecutors(self, ids, adjust, count_failures, force):
        for id_ in ids:
            if force or id_ not in self.busy:
                self.killed.append(id_)
                self.ids.remove(id_)

    def decommissionExecutor(self, id_, info, adjust, by_executor):
        self.decommissioned.append(id_)


class _Seq(list):
    def size(self):
        return len(self)

    def apply(self, index):
        return self[index]
