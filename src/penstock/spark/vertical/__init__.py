"""Vertical scaling on Spark: operators of a query in control groups of their own, as MEAD VI has it on Flink."""

from penstock.spark.vertical.operators import Operator, chain
from penstock.spark.vertical.plant import ChainPlant

__all__ = ["ChainPlant", "Operator", "chain"]
