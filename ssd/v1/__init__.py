"""Stubs of protos/ssd/v1, written by `make proto` and never edited."""
