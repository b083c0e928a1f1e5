"""What a client of A2A needs, without a user interface: the wire, and the model of a conversation.

`sse`, `http`, `a2a`, `sessions` and `task_log` speak to a server. `events`, `states`, `session`, `conversation`, `cut`
and `continuation` are pure: they decide what a stream shows, what a rewind hides and where the next message goes, the
same for every interface on top of them.
"""
