"""Parhelion: compare inference engines token by token on live traffic."""
