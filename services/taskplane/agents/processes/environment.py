"""The variables of the process of an agent: variables of the system, and variables that the operator names."""

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Final

from taskplane.agents.llm.settings import PREFIX as LLM
from taskplane.runtime.settings import environment

_SYSTEM: Final = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "TMP", "TEMP", "LANG", "LANGUAGE", "LC_*"),
    *("VIRTUAL_ENV", "PYTHON*", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "XDG_*"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
)
_OURS: Final = "TASKPLANE_*"
_SHIPPED: Final = re.compile(r"(?:[^=]*=)?llm")
# The names of variables that an agent is likely to miss.
_CREDENTIAL: Final = re.compile("KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL")


def environment_of(source: str, named: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Return the variables for the agent with this source (a spec of `load_agents`), and the names of credentials that
    were left out.

    `named`: further names; a name that ends with * stands for all names with this prefix. Variables of the plane are
    never included, except `TASKPLANE_LLM_*` for the shipped agent `llm`. A proxy with a password is included only if
    it is named.
    """
    ours = f"{LLM}*" if _SHIPPED.fullmatch(source) else ""
    given: dict[str, str] = {}
    withheld: list[str] = []
    for name, value in environment().items():
        if fnmatchcase(name, _OURS):
            if fnmatchcase(name, ours):
                given[name] = value
        elif _any(name, named) or (_any(name, _SYSTEM) and not ("proxy" in name.lower() and "@" in value)):
            given[name] = value
        elif _CREDENTIAL.search(name):
            withheld.append(name)
    return given, sorted(withheld)


def _any(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
