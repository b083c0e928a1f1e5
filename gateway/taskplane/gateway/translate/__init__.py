"""JSON <-> protobuf: one module per A2A version over the same A2A 1.0 messages, and the modules that they share."""
