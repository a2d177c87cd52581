"""The best offers of the last second over a generated stream: run it with `python examples/preference_query.py`."""

import tempfile

import penstock as ps

with ps.spark.running(ps.spark.session()) as spark:
    stream = (
        spark.readStream.format("penstock-traffic")
        .options(model="map2", rate=5000, dispersion=500, dims=3, delayMean=0.2, seconds=10, seed=1)
        .load()
    )
    query = ps.PreferenceQuery(
        ps.skyline_of(ps.minimize("a0"), ps.minimize("a1"), ps.maximize("a2")),
        time="event_time",
        window="1 second",
        slide="200 milliseconds",
    )
    with tempfile.TemporaryDirectory() as folder:
        run = query.start(
            stream, output=f"{folder}/results", checkpoint=f"{folder}/checkpoint", available_now=True
        )
        run.await_termination()
        best = spark.read.parquet(f"{folder}/results")
        best.groupBy("window_start").count().orderBy("window_start").show(10, truncate=False)
        print(run.progress["totals"])
