"""What the reference engine is started with.

House rules: values and their checks alone; importing this needs no torch.
"""

from __future__ import annotations

from msgspec import Struct

from engines.reference.planted import Plant, plant_of

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
DEVICES = ("auto", "cpu", "cuda")


class ReferenceOptions(Struct, frozen=True, kw_only=True):
    """Options of ``parhelion engine reference``.

    ``model`` is a directory in Hugging Face's layout, a ``.gguf`` file (dequantised while loading), or a hub name. ``port`` 0 takes a free
    one. ``max_model_len`` (tokens, prompt and reply together) is the model's own when None; ``max_logprobs`` bounds what one request may ask for a position;
    ``threads`` None leaves torch's choice. ``chat_template`` is a file that stands for the model's own template, ``temperature`` what a request without one gets;
    None: as the model has them. ``planted`` names faults to put in (``planted.Plant``);
    ``planted_routes`` serves every route below ``/planted/NAME=VALUE,.../`` as well, with those faults; ``full_vocabulary`` adds a route that gives every token's value.
    """

    model: str
    dtype: str = "fp32"
    device: str = "cpu"
    host: str = "127.0.0.1"
    port: int = 8100
    served_model_name: str | None = None
    threads: int | None = None
    attention: str = "sdpa"
    max_model_len: int | None = None
    max_logprobs: int = 1000
    chat_template: str | None = None
    temperature: float | None = None
    planted: str = ""
    planted_routes: bool = False
    full_vocabulary: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the option."""
        if self.dtype not in DTYPES:
            raise ValueError(f"--dtype {self.dtype}: choose one of {', '.join(DTYPES)}")
        if self.device not in DEVICES:
            raise ValueError(f"--device {self.device}: choose one of {', '.join(DEVICES)}")
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"--threads {self.threads}: at least 1, or leave it out")
        if self.temperature is not None and not 0.0 <= self.temperature <= 100.0:
            raise ValueError(f"--temperature {self.temperature}: between 0 (greedy) and 100")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"--port {self.port}: between 0 (any free port) and 65535")
        try:
            plant_of(self.planted)
        except ValueError as wrong:
            raise ValueError(f"--planted {wrong}") from None

    @property
    def plant(self) -> Plant:
        """The faults that ``planted`` names."""
        return plant_of(self.planted)


class EngineStartError(Exception):
    """The engine cannot start; the text says what is wrong and how to mend it."""
