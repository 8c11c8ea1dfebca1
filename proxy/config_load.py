"""From a YAML file, the environment and flags to one ``Config``, or one ``ConfigError`` that says what to mend.

House rules. Flags over environment (``PARHELION__PRIMARY__URL``, ``PARHELION__SHADOWS__0__NAME``) over file. Secrets come as ``${NAME}`` from the
environment. Every error names the key with its path, the offending value unless it may be a secret, and the remedy.
Nothing here connects anywhere.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

import msgspec
import yaml

from proxy.config import (
    Config,
    Declared,
    Drift,
    Limits,
    Match,
    Primary,
    Probes,
    Records,
    Rule,
    Sampling,
    Shadow,
    Spool,
    Timeouts,
    Verdict,
)
from proxy.config_file import ConfigError, Tree, read_file
from proxy.ledger.access import OPEN, PAGES

PREFIX = "PARHELION__"

_UNITS_TIME = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS_SIZE = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
}
_TIMES = re.compile(
    r"^(drain|recheck|shadows\[\d+\]\.deadline|timeouts\.(head|connect|idle)|records\.keep|probes\.every)$"
)
_SIZES = re.compile(r"^(limits\.(capture_bytes|queue_bytes)|records\.max_bytes|spool\.max_bytes)$")
_SHORT = 24  # characters; keys are longer
_SECRETS = re.compile(r"(^|\.)(api_key|admin_token|salt)$")
_QUANTITY = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*$")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
}  # msgspec's names of types, for people
_RIGHT = {
    "sampling.rate": "a share from 0 to 1",
    "sampling.rules[].rate": "a share from 0 to 1",
    "sampling.by": "request, conversation or header:NAME",
    "shadows[].name": "letters, digits, dots, dashes and underscores, at most 63, a letter or digit first",
    "spool.path": "a directory; to keep nothing on disk write `spool: null`",
    "verdict.near_tie": "nats above 0 (100 at most), or auto",
    "verdict.alpha": "a probability above 0 and below 0.5",
    "verdict.margin": "a share of conversations above 0 and below 1, such as 0.01",
    "verdict.allowance": "a share of conversations above 0 and below 1, such as 0.01",
    "probes.alpha": "a probability above 0 and below 0.5",
    "drift.mean_conversations_between_false_alarms": "a number of conversations from 100 on",
}  # where msgspec's own words say too little
_PATH = re.compile(r" - at `(?:key in )?\$(.*)`$")
_EXPONENT = re.compile(r" = '[\d.]+[eE][+-]?\d+'")
_SECTIONS: dict[str, type] = {
    "": Config, "primary": Primary, "shadows[]": Shadow, "sampling": Sampling, "sampling.rules[]": Rule, "sampling.rules[].match": Match, "limits": Limits,
    "timeouts": Timeouts, "records": Records, "spool": Spool, "verdict": Verdict, "drift": Drift, "probes": Probes,
}  # fmt: skip


def load(path: Path | None, environment: Mapping[str, str], flags: Tree, *, secrets: bool = True) -> Config:
    """Make the configuration. ``flags`` is a tree of the same shape as the file; without ``secrets`` no key of an engine or of ours is looked up. Raises ConfigError."""
    tree = read_file(path) if path is not None else {}
    _overlay(tree, _from_environment(environment))
    _overlay(tree, flags)
    tree = _expand(tree if secrets else _without_secrets(tree), "", environment)
    try:
        config = msgspec.convert(tree, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error), tree)) from None
    return checked(config)


def _from_environment(environment: Mapping[str, str]) -> Tree:
    tree: Tree = {}
    for name in sorted(environment):
        if not name.startswith(PREFIX):
            continue
        keys = [part.lower() for part in name[len(PREFIX) :].split("__")]
        if not all(keys):
            raise ConfigError(f"{name}: write PARHELION__SECTION__KEY, with no empty part")
        secret = _SECRETS.search(".".join(keys))
        try:
            value = environment[name] if secret else yaml.safe_load(environment[name])
        except yaml.YAMLError:
            raise ConfigError(f"{name}: its value is not a YAML value; quote it if it is text") from None
        place = tree
        for key in keys[:-1]:
            place = place.setdefault(key, {})
            if not isinstance(place, dict):
                raise ConfigError(f"{name}: another variable already gives a value to a part of its path; keep one")
        place[keys[-1]] = value
    return tree


def _overlay(base: Tree, over: Tree) -> None:
    """Lay ``over`` on ``base`` in place: mappings merge, a mapping with numeric keys addresses a list, all else replaces."""
    for key, value in over.items():
        below = base.get(key)
        if isinstance(value, dict) and value and all(part.isdigit() for part in value):
            items = list(below) if isinstance(below, list) else []
            for part in sorted(value, key=int):
                if int(part) > len(items):
                    raise ConfigError(f"{key}: there is no entry {part}; the next free one is {len(items)}")
                if int(part) == len(items):
                    items.append({})
                if isinstance(items[int(part)], dict) and isinstance(value[part], dict):
                    _overlay(items[int(part)], value[part])
                else:
                    items[int(part)] = value[part]
            base[key] = items
        elif isinstance(value, dict) and isinstance(below, dict):
            _overlay(below, value)
        else:
            base[key] = value


def _expand(value: Any, path: str, environment: Mapping[str, str]) -> Any:
    """Fill in ``${NAME}`` and turn "60s" and "8MiB" into numbers where the key is a time or a size."""
    match value:
        case dict():
            return {
                key: _expand(item, f"{path}.{key}" if path else str(key), environment) for key, item in value.items()
            }
        case list() | tuple():
            return [_expand(item, f"{path}[{number}]", environment) for number, item in enumerate(value)]
        case str():
            text = _VARIABLE.sub(lambda found: _variable(found[1], path, environment), value)
            if _TIMES.match(path):
                return _quantity(text, path, _UNITS_TIME, "a time such as 500ms, 60s, 5m, 2h or 7d")
            if _SIZES.match(path):
                return int(_quantity(text, path, _UNITS_SIZE, "a size such as 64KiB, 8MiB or 5GB"))
            return text
        case _:
            return value


def _without_secrets(value: Any) -> Any:
    """The tree with a word in place of every secret, for those who need none."""
    match value:
        case dict():
            return {key: "unused" if _SECRETS.search(key) else _without_secrets(item) for key, item in value.items()}
        case list() | tuple():
            return [_without_secrets(item) for item in value]
        case _:
            return value


def _variable(name: str, path: str, environment: Mapping[str, str]) -> str:
    try:
        return environment[name]
    except KeyError:
        raise ConfigError(f"{path}: the environment variable {name} is not set; export it, or delete the key") from None


def _quantity(text: str, path: str, units: Mapping[str, float], kind: str) -> float:
    found = _QUANTITY.match(text)
    if not found or found[2] not in units:
        raise ConfigError(f"{path}: {quoted(text)} is not {kind}")
    return float(found[1]) * units[found[2]]


def _explain(message: str, tree: Tree) -> str:
    """Turn msgspec's message into ours: path first, then what is wrong, then what would be right."""
    found = _PATH.search(message)
    path = found[1].lstrip(".") if found else ""
    text = message[: found.start()] if found else message
    unknown = re.match(r"Object contains unknown field `(.*)`$", text, re.DOTALL)
    if unknown:
        section = _SECTIONS.get(re.sub(r"\[\d+\]|\[\.\.\.\]", "[]", path))
        known = list(section.__struct_fields__) if section else []  # type: ignore[attr-defined]  # a Struct type
        near = difflib.get_close_matches(unknown[1], known, 1)
        hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
        name = unknown[1] if unknown[1].isprintable() else repr(unknown[1])
        return f"{f'{path}.' if path else ''}{name}: unknown key; {hint}"
    missing = re.match(r"Object missing required field `(.*)`$", text)
    if missing:
        return f"{f'{path}.' if path else ''}{missing[1]}: is required; add it"
    shown = "" if _SECRETS.search(path) else _shown(tree, path)
    text = re.sub(rf"'.{{{_SHORT + 1},}}'", "as above", text)
    place = re.sub(r"\[(\d+|\.\.\.)\]", "[]", path)
    if right := _RIGHT.get(place):
        text = f"give {right}"
    elif choices := _choices(place):
        text = f"give one of {', '.join(choices)}"
    if _EXPONENT.fullmatch(shown):
        text += "; to YAML this is text: write it with a dot and a sign, as 1.0e-3"
    text = re.sub(r"`([a-z]+)(?: \| null)?`", lambda name: _WORDS.get(name[1], name[1]), text)
    return f"{path or 'configuration'}{shown}: {text[0].lower()}{text[1:]}"


def _choices(place: str) -> list[str]:
    """The words a key may have; empty where it is not a choice among words."""
    section, _, key = place.rpartition(".")
    if section not in _SECTIONS:
        return []
    hint = get_type_hints(_SECTIONS[section]).get(key.removesuffix("[]"))
    if key.endswith("[]"):
        hint = get_args(hint)[0]
    return [str(word) for word in get_args(hint)] if get_origin(hint) is Literal else []


def _shown(tree: Any, path: str) -> str:
    for key, number in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        try:
            tree = tree[int(number)] if number else tree[key]
        except (KeyError, IndexError, TypeError):
            return ""
    return f" = {quoted(tree)}" if isinstance(tree, str | int | float | bool) or tree is None else ""


def quoted(value: object) -> str:
    """A wrong value as an error shows it, in YAML's words: a long text may be a key that got into the wrong place."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value) if len(str(value)) <= _SHORT else f"a text of {len(str(value))} characters"


def address(text: str, key: str) -> tuple[str, int]:
    """Split HOST:PORT (IPv6 in brackets). Raises ConfigError naming ``key``."""
    host, separator, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65535 or not host:
        raise ConfigError(f"{key}: {quoted(text)} is not HOST:PORT, such as 127.0.0.1:8001")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address bound to ``host``."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_url(url: str, key: str) -> None:
    """Refuse what cannot be an engine's base URL. Raises ConfigError."""
    if not url:
        flag = " (--primary URL)" if key == "primary.url" else ""
        raise ConfigError(f"{key}: is required; give the engine's base URL{flag}, such as http://127.0.0.1:8000")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError(f"{key}: is not a URL with a valid port") from None
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{key}: holds a credential; put it into api_key instead")
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise ConfigError(f"{key}: {quoted(url)} is not an http:// or https:// URL of an engine")
    if parts.query or parts.fragment or re.search(r"[\s\x00-\x1f\x7f]", url):
        raise ConfigError(f"{key}: must be a plain base URL, without query, fragment or blanks")


def check_secret(value: str | None, key: str) -> None:
    """Refuse what cannot stand in a header; the value is not shown."""
    if value is not None and not re.fullmatch(r"[\x21-\x7e]+", value):
        raise ConfigError(
            f"{key}: is empty, or holds a blank, a line break or a character that is not ASCII; check where it comes from"
        )


def _check_declared(declared: Declared, key: str) -> None:
    """Refuse numbers that are none and texts that cannot be written: an engine could neither be compared by them nor asked for them."""
    for name, value in declared.items():
        if isinstance(value, str):
            fits = value.isascii() or value == value.encode("utf-8", "replace").decode()
        else:
            fits = isfinite(value) and abs(value) < 1 << 63
        if not fits:
            raise ConfigError(f"{key}.{name} = {quoted(value)}: give a finite number of at most 64 bits, or text")


def _is_ourselves(url: str, listen: tuple[str, int]) -> bool:
    """Whether a URL leads to the address that clients are listened for on, as far as it can be told without asking a name server."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if port != listen[1]:
        return False
    return host == listen[0] or (is_loopback(host) and (is_loopback(listen[0]) or listen[0] in {"0.0.0.0", "::"}))  # noqa: S104 - compared, not bound


def checked(config: Config) -> Config:
    """The configuration itself, once its parts are found to fit together. Raises ConfigError."""
    _check(config)
    return config


def _check(config: Config) -> None:
    check_url(config.primary.url, "primary.url")
    check_secret(config.primary.api_key, "primary.api_key")
    _check_declared(config.primary.declare, "primary.declare")
    check_secret(config.admin_token, "admin_token")
    check_secret(config.sampling.salt, "sampling.salt")
    names: set[str] = set()
    for number, shadow in enumerate(config.shadows):
        check_url(shadow.url, f"shadows[{number}].url")
        check_secret(shadow.api_key, f"shadows[{number}].api_key")
        _check_declared(shadow.declare, f"shadows[{number}].declare")
        if shadow.name in names or shadow.name == "primary":
            raise ConfigError(f"shadows[{number}].name: {shadow.name!r} is taken; give each shadow its own name")
        names.add(shadow.name)
        if not shadow.modes or len(set(shadow.modes)) != len(shadow.modes):
            raise ConfigError(f"shadows[{number}].modes: give free, forced or both, each once")
    if sum(shadow.role == "control" for shadow in config.shadows) > 1:
        raise ConfigError("shadows: more than one has the role control; the noise floor needs exactly one")
    listen, admin = address(config.listen, "listen"), address(config.admin, "admin")
    if listen[1] == admin[1] != 0:
        raise ConfigError(f"admin: shares port {admin[1]} with listen; give the admin port its own")
    if not is_loopback(admin[0]) and not config.admin_token:
        raise ConfigError(
            "admin_token: is required when admin is not a loopback address; write admin_token: ${PARHELION_ADMIN_TOKEN} in the file and export that, "
            "or export PARHELION__ADMIN_TOKEN"
        )
    for key, url in (
        ("primary.url", config.primary.url),
        *((f"shadows[{n}].url", one.url) for n, one in enumerate(config.shadows)),
    ):
        if _is_ourselves(url, listen):
            raise ConfigError(
                f"{key}: {url} is where clients are listened for ({config.listen}); every request would come back to us: give one of them another port"
            )
    if unknown := set(config.admin_public) - PAGES:
        raise ConfigError(f"admin_public: {min(unknown)!r} is no page; give any of {', '.join(sorted(PAGES - OPEN))}")
    if config.handoff != "local":
        raise ConfigError(f"handoff: {quoted(config.handoff)} is not available in this version; use local")
    if not config.records.url.startswith("sqlite:///"):
        raise ConfigError("records.url: this version stores in SQLite; write sqlite:///FILE")
