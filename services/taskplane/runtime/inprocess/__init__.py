"""A channel to the services of this process, like `grpc.inprocess` of grpc-java."""
