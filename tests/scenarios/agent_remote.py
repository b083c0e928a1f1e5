"""The scenarios with a remote agent: the executor of the A2A SDK's, on the SDK's own server."""

import os
from typing import Final

from tests.scenarios.script import rerun

from taskplane.agents.agent import Agent

URL: Final = "REMOTE_AGENT"


def again() -> Agent:
    return rerun(os.environ[URL])
