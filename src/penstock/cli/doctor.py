"""``penstock doctor``: what this machine can do, tried rather than guessed."""

import json
from typing import Any

import typer
from rich.console import Console


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="doctor")(doctor)


def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print the findings as JSON."),
    quick: bool = typer.Option(
        False, help="Do not start a cluster to try executors (saves about 20 seconds)."
    ),
) -> None:
    """Check Python, Java, Spark and the machine, and try which actuators work here.

    Ends with code 1 where something that Penstock needs is missing. An actuator that does not work is no fault: the
    others, and the simulator, do without it.
    """
    console = Console()
    if as_json:
        found = examine(quick)
    else:
        with console.status("trying actuators"):
            found = examine(quick)
    if as_json:
        typer.echo(json.dumps(found, indent=1))
    else:
        _print(found, console)
    if found["problems"]:
        raise typer.Exit(1)


def examine(quick: bool) -> dict[str, Any]:
    """All findings as plain values."""
    from penstock.spark.actuators import cpu_frequency, cpu_share, energy, executor_probe, executors, slots
    from penstock.spark.actuators.probe_result import ProbeResult
    from penstock.spark.machine import facts

    found = facts()
    abilities = [cpu_share.probe(), cpu_frequency.probe(), energy.probe(), slots.probe()]
    if quick:
        abilities.append(ProbeResult(executors.NAME, False, "Not tried, as asked.", "Leave out --quick."))
    elif found["problems"]:
        abilities.append(
            ProbeResult(executors.NAME, False, "Not tried: Spark cannot start.", "Mend the problems.")
        )
    else:
        abilities.append(executor_probe.probe())
    return {**found, "actuators": [ability.as_dict() for ability in abilities]}


def _print(found: dict[str, Any], console: Console) -> None:
    java = found["java"]
    memory = found["memory_gb"]
    rows = [
        ("Python", f"{found['python']['version']}  ({found['python']['path']})"),
        ("Java", f"{java['version']}  ({java['home']})" if java else "none"),
        ("Spark", found["spark"] or "none"),
        ("packages", ", ".join(f"{k} {v or 'missing'}" for k, v in found["packages"].items())),
        ("cores", f"{found['cores']['usable']} usable of {found['cores']['machine']}"),
        ("memory", f"{memory['available']} GB free of {memory['total']} GB" if memory else "unknown"),
        ("system", found["system"]),
    ]
    for name, text in rows:
        console.print(f"{name:<16}{text}", highlight=False, markup=False, soft_wrap=True)
    console.print("\nactuators")
    for ability in found["actuators"]:
        mark, style = ("yes", "green") if ability["works"] else ("no", "yellow")
        mark = "?" if ability["unknown"] else mark
        console.print(f"  [{style}]{mark:<4}[/{style}]", end="")
        console.print(
            f"{ability['name']:<16}{ability['found']}", highlight=False, markup=False, soft_wrap=True
        )
        if ability["how"]:
            console.print(
                f"{'':<22}To get it: {ability['how']}",
                style="dim",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
    for problem in found["problems"]:
        console.print(f"\n{problem}", style="red", highlight=False, markup=False, soft_wrap=True)
