"""Checks of whole recordings belong to the experiments: they are collected only where the recordings are."""

from penstock_lab.data import data_folder

collect_ignore = [] if data_folder().is_dir() else ["test_whole_recordings.py"]
