"""A job that has nothing to say but that it is done."""

print("tokenized 7473 prompts in 2.1 s")
