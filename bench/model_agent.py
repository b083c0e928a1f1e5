"""The agent of both sides: a pydantic-ai Agent on the model of `bench.model`, which `BENCH_MODEL` names."""

import os

from pydantic_ai import Agent

agent = Agent(f"openai-chat:{os.environ['BENCH_MODEL']}")
