"""Benchmarks of taskplane side by side with the official A2A SDK's own server, on one machine in one run."""
