"""What a client of A2A needs, without a user interface: the wire, and the model of a conversation.

`sse`, `http` and `a2a` speak to a server. `events`, `states`, `conversation` and `continuation` are pure: they decide
what a stream shows and where the next message goes, the same for every interface on top of them.
"""
