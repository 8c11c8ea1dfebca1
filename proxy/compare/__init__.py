"""Reading, aligning and comparing token streams: pure functions over frozen values."""
