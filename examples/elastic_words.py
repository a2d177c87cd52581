"""A flow that is rescaled while it runs: python examples/elastic_words.py"""

import tempfile
from pathlib import Path

import penstock
from penstock.apps import wordcount
from penstock.spark.sources.demo_sources import numbers


def main():
    spark = penstock.spark.session("local[2]")
    flow = penstock.Flow("words")
    lines = flow.source("numbers", numbers(spark, rate=20_000)).through(wordcount.write_lines)
    wordcount.build(lines).sink("counts")
    print(flow.explain())
    with tempfile.TemporaryDirectory() as folder:
        run = flow.start(spark, checkpoint=Path(folder, "checkpoint"), output=Path(folder, "out"))
        for change in ({"replicas": {"count": 3}}, {"overlap": {"count": True}}, {"replicas": {"count": 1}}):
            run.await_termination(8)
            run.rescale(**change)
            print("asked for", change, "- last batch:", run.progress)
        run.await_termination(8)
        run.stop()
        print("ended with", run.totals)
    spark.stop()


if __name__ == "__main__":
    main()
