"""What the drafter's and the verifier's processes share: a model, an engine, a server, a place."""
