"""Runs a job that succeeds at once."""

print("tokenized 7473 prompts in 2.1 s")
