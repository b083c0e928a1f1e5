"""The operations of A2A over protobuf, the same for every binding."""
