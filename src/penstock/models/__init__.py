"""Markovian arrival processes, phase-type service and queues; networks of queues are in :mod:`penstock.models.network`."""

from penstock.models.arrivals import Mmpp2, Poisson, kpc
from penstock.models.kingman import Kingman
from penstock.models.kpc_fit import fit_kpc
from penstock.models.map import MAP
from penstock.models.map2 import fit_map2
from penstock.models.map_ph1 import MapPh1
from penstock.models.mg1 import Mg1
from penstock.models.microbatch import MicroBatch
from penstock.models.phase_type import Erlang

__all__ = [
    "MAP", "Mmpp2", "Poisson", "kpc", "fit_map2", "fit_kpc",  # arrivals
    "Erlang",  # service
    "MapPh1", "Mg1", "Kingman", "MicroBatch",  # queues
]  # fmt: skip
