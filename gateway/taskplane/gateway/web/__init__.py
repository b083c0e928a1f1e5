"""HTTP: requests, responses, streams of events, uploads."""
