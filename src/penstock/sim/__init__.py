"""The virtual-time simulator and its plants."""
