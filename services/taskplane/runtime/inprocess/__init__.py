"""A channel to the services of this process, as grpc-java's `grpc.inprocess` is one."""
