"""One small file per dialect: its routes and the shapes of its replies, as differences from the OpenAI baseline."""
