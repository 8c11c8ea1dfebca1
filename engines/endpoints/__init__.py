"""The routes beside chat and completions: how each one's replies are read, the same for every engine."""
