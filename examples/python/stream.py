"""Stream a text: python examples/python/stream.py HOST:PORT "Once upon a time"."""

import sys

from ssd.client import Client, Options


def main(address: str, prompt: str) -> None:
    options = Options(max_tokens=32, temperature=0.7, seed=1, stop=("\n\n",), timeout_s=60.0)
    with Client(address) as client, client.generate(prompt, options) as generation:
        for piece in generation:
            print(piece.text, end="", flush=True)
        done = generation.completion
    print(f"\n{done.num_completion_tokens} tokens, {done.finish_reason}, seed {done.seed}")


if __name__ == "__main__":
    main(*sys.argv[1:])
