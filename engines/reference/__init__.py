"""The reference engine: Transformers and torch, fp32 by default, with logprobs and forced scoring."""
