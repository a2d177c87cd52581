import penstock.models


def test_the_names_that_programs_rely_on_are_there() -> None:
    promised = {
        "MAP", "Mmpp2", "Poisson", "kpc", "fit_map2", "fit_kpc", "fit_windows", "Erlang", "Exponential",
        "HyperExponential", "PH", "MapPh1", "Mg1", "MM1", "Kingman", "GGn", "MicroBatch",
    }  # fmt: skip
    assert promised <= set(penstock.models.__all__)


def test_every_exported_name_exists_once() -> None:
    assert len(set(penstock.models.__all__)) == len(penstock.models.__all__)
    for name in penstock.models.__all__:
        assert hasattr(penstock.models, name)
