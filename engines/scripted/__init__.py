"""The scripted engine: any dialect spoken by a toy model, with differences and faults planted by a script."""
