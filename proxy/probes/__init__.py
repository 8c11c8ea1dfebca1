"""Near-tie probes: a few one-token questions at which an engine hardly prefers one token to another, asked again and again.

Where the two most likely tokens are nearly level, a changed kernel, quantisation or flag shows at once, at the cost of one token a question. The map: ``mine`` (out of records) ->
``probe`` (the questions, and their file) -> ``ask`` (one run of all) -> ``baseline`` (runs that were kept) -> ``change`` (the test).
"""
