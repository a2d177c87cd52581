"""Regions of pipelines and replicas on a machine with few cores: the plant of Joker."""
