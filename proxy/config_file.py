"""A YAML file as a plain tree, or one ``ConfigError`` that names file, line and remedy.

House rules. Knows YAML and nothing of what the keys mean.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

Tree = dict[str, Any]

#: Values in one file once its aliases are written out. Real files have some hundred; nine lines of aliases of aliases make a thousand million.
_MOST_VALUES = 100_000


class ConfigError(Exception):
    """The configuration cannot be used; the text is one line for a person."""


class _Loader(yaml.SafeLoader):
    """YAML's safe subset, minus its habit of letting a repeated key win silently."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> Tree:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node)
        if not isinstance(key, str):
            raise ConfigError(f"line {key_node.start_mark.line + 1}: the key {key!r} is not text; quote it")
        if key in seen:
            raise ConfigError(f"line {key_node.start_mark.line + 1}: the key {key!r} is given twice; keep one")
        seen.add(key)
    return {str(key): value for key, value in loader.construct_mapping(node, deep=True).items()}


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_file(path: Path) -> Tree:
    """Read one file as a tree of mappings, lists and plain values; an empty file is an empty mapping. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"{path}: cannot be read: {reason}") from None
    try:
        tree = _load(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{path}: is nested too deep to be a configuration") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        raise ConfigError(
            f"{path}:{where} is not YAML: {getattr(error, 'problem', None) or 'see a YAML checker'}"
        ) from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: must be a mapping of keys such as `primary:`, not a {type(tree).__name__}")
    return tree


def _load(text: str) -> Any:
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_too_many(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_too_many(root: yaml.Node) -> None:
    """Count the values with aliases written out; each node is looked at once, however often it is named."""
    sizes: dict[int, int] = {}

    def size(node: yaml.Node) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = _MOST_VALUES + 1  # what an alias inside itself comes to
            parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
            sizes[id(node)] = 1 + (0 if isinstance(node, yaml.ScalarNode) else sum(map(size, parts)))
        return sizes[id(node)]

    if size(root) > _MOST_VALUES:
        raise ConfigError(
            f"has more than {_MOST_VALUES:,} values once its aliases are written out; write it without them"
        )
