"""Faults on every side of a running ``parhelion serve``: what a client must never notice, and what every limit really bounds."""
