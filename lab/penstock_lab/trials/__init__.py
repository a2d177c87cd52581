"""Vertical scaling on Spark: operators of a query in control groups of their own, as MEAD VI has it on Flink."""

from penstock_lab.trials.chain_operators import ChainOperator, chain
from penstock_lab.trials.chain_plant import ChainPlant

__all__ = ["ChainPlant", "ChainOperator", "chain"]
