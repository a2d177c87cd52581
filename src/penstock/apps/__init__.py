"""Runnable applications."""
