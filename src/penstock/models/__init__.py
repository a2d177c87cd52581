"""Markovian arrival processes, phase-type service, queues and networks of queues."""

from penstock.models.arrivals import Mmpp2, Poisson, kpc
from penstock.models.demand import Demand, DemandEstimator
from penstock.models.fitted import FittedMap
from penstock.models.ggn import GGn
from penstock.models.kingman import Kingman
from penstock.models.kpc_fit import fit_kpc, fit_windows
from penstock.models.lindley import simulate_queue
from penstock.models.map import MAP
from penstock.models.map2 import fit_map2
from penstock.models.map_counts import sample_counts
from penstock.models.map_ph1 import MapPh1
from penstock.models.map_sampler import MapSampler
from penstock.models.mg1 import MM1, Mg1
from penstock.models.microbatch import MicroBatch
from penstock.models.microbatch_loop import simulate_microbatch
from penstock.models.network import Application, Edge, Station
from penstock.models.network_simulate import simulate_network
from penstock.models.network_solve import solve_network
from penstock.models.phase_type import PH, Erlang, Exponential, HyperExponential
from penstock.models.phase_type_fit import FittedPH, fit_ph
from penstock.models.power import PowerModel
from penstock.models.queue import Queue, TwoMoments

__all__ = [
    # arrivals
    "MAP",
    "FittedMap",
    "MapSampler",
    "Mmpp2",
    "Poisson",
    "fit_kpc",
    "fit_map2",
    "fit_windows",
    "kpc",
    "sample_counts",
    # service
    "PH",
    "Demand",
    "DemandEstimator",
    "Erlang",
    "Exponential",
    "FittedPH",
    "HyperExponential",
    "fit_ph",
    # queues
    "GGn",
    "Kingman",
    "MM1",
    "MapPh1",
    "Mg1",
    "MicroBatch",
    "Queue",
    "TwoMoments",
    "simulate_microbatch",
    "simulate_queue",
    # networks
    "Application",
    "Edge",
    "Station",
    "simulate_network",
    "solve_network",
    # power
    "PowerModel",
]
