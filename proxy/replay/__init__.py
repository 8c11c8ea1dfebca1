"""Recorded or foreign traffic, asked again and compared as live traffic is.

``line`` (what one line of a file says) <- ``formats`` (whose line it is) <- ``traffic`` (a file, opened and checked whole) -> ``plan`` (which lines, in which order) ->
``asking`` (the primary, or its recorded replies) -> ``runner`` (the judge's own desk, settled in order) -> ``accounts`` (the report). ``progress`` is what a killed replay goes on from.

House rules. Nothing here compares, classifies, counts or decides: that is ``proxy.judge`` and ``proxy.compare``, so that the numbers are those of live traffic. No content of a file selects whom to ask.
"""
