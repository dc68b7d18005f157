"""Several requests at once with asyncio: python examples/python/chat_and_scores.py HOST:PORT."""

import asyncio
import sys

from ssd.client import AsyncClient, Options


async def main(address: str) -> None:
    async with AsyncClient(address) as client:
        answers = await asyncio.gather(
            *(
                client.generate("Once upon a time", Options(max_tokens=16, seed=seed)).read()
                for seed in range(3)
            )
        )
        for answer in answers:
            print(repr(answer))
        scored = client.generate(
            "Once upon a time",
            Options(max_tokens=4, temperature=0.0, logprobs=True, top_logprobs=2),
        )
        async for piece in scored:
            for entry in piece.logprobs:
                print(entry.token_id, round(entry.logprob, 3), len(entry.top))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
