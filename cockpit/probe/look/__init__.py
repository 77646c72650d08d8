"""What a probe looks at: GPUs, memory, processes, Ray's sessions; it changes nothing."""
