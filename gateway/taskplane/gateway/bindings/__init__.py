"""The bindings of A2A: each reads requests into calls, and writes results and errors."""
