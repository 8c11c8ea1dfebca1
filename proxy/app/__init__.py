"""The composition root: the supervisor and the child processes of ``parhelion serve``."""
