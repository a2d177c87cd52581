"""Forecasters of arrival rates."""
