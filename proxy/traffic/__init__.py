"""The live path: bytes in, bytes out, a copy of sampled exchanges handed over without ever waiting."""
