"""A2A 0.3 as protobuf, which its gRPC and REST have: the messages of 1.0 in those of 0.3, and back."""
