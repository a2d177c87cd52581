"""Contracts of the control loop: observations, decisions, policies, plants, guards, journal."""
