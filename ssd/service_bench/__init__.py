"""The whole service against itself in other modes, on the same prompts: `ssd bench`."""
