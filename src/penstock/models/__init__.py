"""Markovian arrival processes, phase-type service, queues and networks of queues."""

from penstock.models.arrivals import Mmpp2, Poisson, kpc
from penstock.models.fitted import FittedMap
from penstock.models.kingman import Kingman
from penstock.models.kpc_fit import fit_kpc, fit_windows
from penstock.models.lindley import simulate_queue
from penstock.models.map import MAP
from penstock.models.map2 import fit_map2
from penstock.models.map_ph1 import MapPh1
from penstock.models.map_sampler import MapSampler
from penstock.models.mg1 import MM1, Mg1
from penstock.models.phase_type import PH, Erlang, Exponential, HyperExponential
from penstock.models.phase_type_fit import FittedPH, fit_ph
from penstock.models.queue import Queue, TwoMoments

__all__ = [
    "MAP",
    "fit_kpc",
    "fit_windows",
    "FittedMap",
    "MapSampler",
    "Mmpp2",
    "Poisson",
    "fit_map2",
    "kpc",
    "PH",
    "Erlang",
    "Exponential",
    "FittedPH",
    "HyperExponential",
    "fit_ph",
    "Queue",
    "TwoMoments",
    "Kingman",
    "MM1",
    "MapPh1",
    "Mg1",
    "simulate_queue",
]
