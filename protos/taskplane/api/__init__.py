"""The contract of taskplane: messages and stubs. Its version is that of everything which is released."""

__version__ = "0.1.0"
