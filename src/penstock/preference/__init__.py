"""Preference queries: kernels, preferences over columns, panes and windows."""
