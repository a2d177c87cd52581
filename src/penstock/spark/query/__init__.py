"""Preference queries over streams: routing, pane stage, window stages, and the program that ties them."""
