"""What may be a label's key or value, with the API's own words for what may not."""

from __future__ import annotations

import re
from functools import lru_cache

_MOST_BYTES = 63
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
    f" (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE = f"({_NAME})?"
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
    f" (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_DOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_DOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
    f" (e.g. 'example.com', regex used for validation is '{_DOMAIN}')"
)
_MOST_DOMAIN_BYTES = 253


@lru_cache(maxsize=4096)
def label_key_problem(key: str) -> str:
    """Why this cannot be a label's key; empty when it can."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return f"a valid label key {_NAME_RULE} {optional}"
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif prefix:
        problems += [f"prefix part {problem}" for problem in _domain_problems(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > _MOST_BYTES:
        problems.append(f"name part {_too_long(_MOST_BYTES)}")
    if not re.fullmatch(_NAME, name):
        problems.append(f"name part {_NAME_RULE}")
    return "; ".join(problems)


@lru_cache(maxsize=4096)
def label_value_problem(value: str) -> str:
    """Why this cannot be a label's value; empty when it can."""
    problems = []
    if len(value.encode()) > _MOST_BYTES:
        problems.append(_too_long(_MOST_BYTES))
    if not re.fullmatch(_VALUE, value):
        problems.append(_VALUE_RULE)
    return "; ".join(problems)


def _domain_problems(domain: str) -> list[str]:
    problems = []
    if len(domain.encode()) > _MOST_DOMAIN_BYTES:
        problems.append(_too_long(_MOST_DOMAIN_BYTES))
    if not re.fullmatch(_DOMAIN, domain):
        problems.append(_DOMAIN_RULE)
    return problems


def _too_long(most: int) -> str:
    return f"must be no more than {most} bytes"
