"""Performance side by side, and the papers' tables."""
