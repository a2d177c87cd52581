"""Markovian arrival processes, phase-type service, queues and networks of queues."""
