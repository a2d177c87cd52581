"""Markovian arrival processes, phase-type service, queues and networks of queues."""

from penstock.models.arrivals import Mmpp2, Poisson, kpc
from penstock.models.fitted import FittedMap
from penstock.models.map import MAP
from penstock.models.map2 import fit_map2
from penstock.models.map_sampler import MapSampler

__all__ = ["MAP", "FittedMap", "MapSampler", "Mmpp2", "Poisson", "fit_map2", "kpc"]
