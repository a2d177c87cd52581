"""New executors on a real cluster: work that waits comes to them after they are warm."""

import json

import pytest

from waiting import PATIENCE

pytestmark = pytest.mark.cluster

#: Short jobs one after another on one executor; a second one comes. Prints the tasks that it ran, in order.
JOIN = """
    import json, sys, threading
    from pyspark.sql.functions import udf
    import penstock.spark
    from penstock.spark.actuators.executor_probe import reach
    from penstock.spark.actuators.executors import Executors
    from penstock.spark.cluster import LocalCluster

    # However slow the machine, a warming task waits for its executor.
    config = {**LocalCluster().session_config(), "spark.locality.wait.process": "600s"}
    spark = penstock.spark.session(sys.argv[1], config=config)
    store = spark.sparkContext._jsc.sc().statusStore()

    @udf("long")
    def work(value):
        import time
        time.sleep(0.05)
        return value

    def tasks_of(executor):
        found = []
        jobs = store.jobsList(None)
        for job in (jobs.apply(i) for i in range(jobs.size())):
            group = job.jobGroup().get() if job.jobGroup().isDefined() else "query"
            for stage in (job.stageIds().apply(i) for i in range(job.stageIds().size())):
                tasks = store.taskList(stage, 0, 1000)
                for task in (tasks.apply(i) for i in range(tasks.size())):
                    if task.executorId() == executor:
                        took = task.duration().get() if task.duration().isDefined() else 0
                        found.append((task.launchTime().getTime(), took, group))
        return sorted(found)

    with penstock.spark.running(spark):
        executors = Executors(spark)
        reach(executors, 1, 600)
        ended = threading.Event()

        def go_on():
            while not ended.is_set():
                spark.range(0, 8, 1, 8).select(work("id").alias("id")).write.format("noop").mode("append").save()

        batches = threading.Thread(target=go_on)
        batches.start()
        reach(executors, 2, 600)
        new = str(max(int(e.id) for e in executors.seen))
        while "query" not in {group for *_, group in tasks_of(new)}:
            ended.wait(0.1)
        ended.set()
        batches.join()
        print(json.dumps(tasks_of(new)))
"""


def test_an_executor_that_comes_is_warmed_before_it_gets_tasks_that_wait(drive):
    child = drive(JOIN)
    out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, err
    tasks = json.loads(out.splitlines()[-1])
    began, took, group = tasks[0]
    assert group == "penstock-warm"
    for later, _, group in tasks[1:]:
        assert later >= began + took or group == "penstock-warm"
