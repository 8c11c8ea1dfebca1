"""The judge process: mirrors exchanges to the shadows, reads both sides, compares, settles each exactly once."""
