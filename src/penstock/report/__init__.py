"""Pages and figures of a run, from its journal."""
