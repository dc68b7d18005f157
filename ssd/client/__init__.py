"""The Python client, blocking and asynchronous.

with Client("127.0.0.1:50050") as client:
    generation = client.generate("Once upon a time", Options(max_tokens=64, temperature=0.0))
    for piece in generation:
        print(piece.text, end="", flush=True)
    print(generation.completion.figures.acceptance)

async with AsyncClient("127.0.0.1:50050") as client:
    async for piece in client.generate([Message("user", "Tell me a story.")]):
        print(piece.text, end="", flush=True)
"""

from ssd.client.asynchronous import AsyncClient, AsyncGeneration
from ssd.client.blocking import Client, Generation
from ssd.client.connection import Tls
from ssd.client.request import Message, Options, Prompt
from ssd.client.result import Choice, Completion, Logprob, Piece, PromptEcho

__all__ = [
    "AsyncClient",
    "AsyncGeneration",
    "Choice",
    "Client",
    "Completion",
    "Generation",
    "Logprob",
    "Message",
    "Options",
    "Piece",
    "Prompt",
    "PromptEcho",
    "Tls",
]
