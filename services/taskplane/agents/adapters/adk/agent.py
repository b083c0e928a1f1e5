"""An agent of ADK as an agent of the port: its runner, for each turn with the services of the turn."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from copy import copy
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig
from google.adk.apps.app import App
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from taskplane.agents.adapters.adk.answers import answer, question
from taskplane.agents.adapters.adk.artifacts import TurnArtifacts
from taskplane.agents.adapters.adk.content import artifact_chunks, content_of
from taskplane.agents.adapters.adk.sessions import TurnSessions
from taskplane.agents.adapters.adk.translation import Translation
from taskplane.agents.adapters.approvals import last_question
from taskplane.agents.adapters.cards import card
from taskplane.agents.agent import Agent, Change, Complete, Fail, Turn


def adapt(found: Any, name: str) -> Agent:
    """Return the agent that serves an ADK agent or workflow, `App` or `Runner`.

    The plane keeps the sessions of a runner, and its artifacts unless the runner has an artifact service of its own.
    """
    if isinstance(found, Runner):
        return AdkAgent(found, name)
    # Each turn has a session service of its own.
    sessions = InMemorySessionService()
    if isinstance(found, App):
        return AdkAgent(Runner(app=found, session_service=sessions), name)
    return AdkAgent(Runner(node=found, app_name=name, session_service=sessions), name)


class AdkAgent:
    """An ADK runner, served by the plane."""

    def __init__(self, runner: Runner, name: str) -> None:
        root = runner.agent
        self.card = card(name, root.description or f"The ADK agent {root.name}.")
        self._runner = runner
        own = runner.artifact_service
        self._keeps_artifacts = own is not None and not isinstance(own, InMemoryArtifactService)
        config = runner.resumability_config
        # A resumable runner takes every given id as one to be resumed, also for a new invocation.
        self._takes_ids = isinstance(root, LlmAgent) or config is None or not config.is_resumable

    async def run(self, turn: Turn) -> AsyncIterator[Change]:
        """Run the agent on one turn."""
        sessions = await TurnSessions.of(turn, self._runner.app_name, self._runner.agent.name)
        runner = copy(self._runner)
        runner.session_service = sessions
        if not self._keeps_artifacts:
            runner.artifact_service = TurnArtifacts(turn, sessions.stored)
        waiting = sessions.waiting_calls()
        told = answer(turn.message, waiting) if waiting else content_of(turn.message, "user")
        if told is None:
            yield question(waiting, last_question(turn))
            return
        # An answer goes on under the invocation that asked, which ADK finds by the call.
        named = None if waiting or not self._takes_ids else turn.invocation_id
        events = runner.run_async(
            user_id=turn.caller.owner,
            session_id=turn.context_id,
            invocation_id=named,
            new_message=told,
            run_config=RunConfig.model_validate({"streaming_mode": "sse"}),
        )
        translation = Translation()
        async with aclosing(events):
            async for event in events:
                for change in translation.take(event):
                    yield change
                async for change in self._artifacts(runner, turn, event):
                    yield change
        for change in translation.rest():
            yield change
        if translation.error:
            yield Fail(translation.error)
        elif waiting := sessions.waiting_calls():
            yield question(waiting, translation.held)
        else:
            yield Complete(translation.end)

    async def _artifacts(self, runner: Runner, turn: Turn, event: Event) -> AsyncIterator[Change]:
        service = runner.artifact_service
        if event.partial or service is None:
            return
        for name, version in event.actions.artifact_delta.items():
            part = await service.load_artifact(
                app_name=runner.app_name,
                user_id=turn.caller.owner,
                session_id=turn.context_id,
                filename=name,
                version=version,
            )
            if part is not None:
                for chunk in artifact_chunks(name, version, part):
                    yield chunk
