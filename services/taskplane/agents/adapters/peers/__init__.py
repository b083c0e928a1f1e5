"""Answers of remote A2A servers, limited in size and brought to the form of their version before the SDK reads them."""
