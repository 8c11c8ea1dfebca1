"""One small file per engine dialect, engine probing, and engines we start ourselves."""
