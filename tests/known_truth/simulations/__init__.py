"""Simulations behind the figures of ``proxy/compare/README.md``: false alarms, power, drift, multiplicity, bounds.

``python -m tests.known_truth.simulations`` prints the tables (about a minute), ``--write`` puts them into the page, ``--seed`` draws others. The tests beside it run smaller
ones with real assertions, and hold what the page says against them.
"""
