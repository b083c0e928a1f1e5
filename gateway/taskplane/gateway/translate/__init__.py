"""JSON <-> protobuf: one module per A2A dialect over the same A2A 1.0 messages, and the nouns they share."""
