"""The state directory: what the processes of one replica share on disk.

House rules. Owner-only. One supervisor per role set holds it (a lock file says so); a second one is told which directory to change.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import secrets
import time
from pathlib import Path

from msgspec.structs import replace

from proxy.config import Config
from proxy.config_file import ConfigError

_LOOK = 0.05


def prepare(config: Config) -> Path:
    """Make the directory and its parts. Raises ConfigError."""
    state = Path(config.state)
    try:
        for folder in (state, state / "counters", state / "judge"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"state: {state} cannot be used: {error.strerror}; name a directory that can be written"
        ) from None
    if len(os.fsencode(state.absolute() / "judge.sock")) > 100:  # sun_path holds 108 bytes (unix(7))
        raise ConfigError(f"state: {state.absolute()} is too long a path for a socket in it; name a shorter one")
    return state


def hold(state: Path, role: str) -> int:
    """Take a role of the directory for this supervisor; the descriptor keeps it until the process ends. Raises ConfigError."""
    path = state / f"supervisor-{role}.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ConfigError(
            f"state: {path} cannot be opened: {error.strerror}; mend its permissions, or delete it"
        ) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ConfigError(
            f"state: {state} is in use by another parhelion; stop it, or give this one its own directory"
        ) from None
    return descriptor


async def hold_judge(state: Path, seconds: float) -> int:
    """Wait until no other judge works on this directory: one whose supervisor was killed may be finishing. Raises ConfigError.

    What it has in its hands would be taken for lost, and counted twice when it settles. The descriptor keeps it out until the process ends.
    """
    descriptor = os.open(state / "judge" / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(descriptor)
                raise ConfigError(f"state: another judge still works on {state}; end it") from None
            await asyncio.sleep(_LOOK)
        else:
            return descriptor


def with_salt(config: Config, state: Path) -> Config:
    """The configuration with a sampling salt: as configured, else the one kept in the directory, else a new one."""
    if config.sampling.salt:
        return config
    return replace(config, sampling=replace(config.sampling, salt=_kept_salt(state / "salt")))


def _kept_salt(path: Path) -> str:
    """The salt in the file, made on first use. Appears whole or not at all: a lost salt would sample other conversations. Raises ConfigError."""
    try:
        salt = path.read_bytes().strip()
    except FileNotFoundError:
        salt = secrets.token_hex(16).encode()
        scratch = path.with_name(f".salt.{os.getpid()}")
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(salt)
        try:
            scratch.rename(path)
        except OSError as error:
            raise ConfigError(f"state: {path} cannot be written: {error.strerror}") from None
    except OSError as error:
        raise ConfigError(
            f"state: {path} cannot be read: {error.strerror}; it should be a file that parhelion wrote"
        ) from None
    if not re.fullmatch(rb"[\x21-\x7e]{8,}", salt):
        raise ConfigError(
            f"state: {path} does not hold a salt; restore it, or delete it and other conversations are sampled from now on"
        )
    return salt.decode()
