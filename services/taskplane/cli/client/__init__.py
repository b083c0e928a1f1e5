"""An A2A client without a user interface: the protocol, and the model of a conversation.

`sse`, `http`, `a2a`, `sessions_api` and `task_log` speak to a server. `events`, `states`, `session_model`,
`conversation`, `cut` and `continuation` do no I/O: they decide about the display of a stream, the effect of a rewind
and to which task the next message goes, the same for every user interface.
"""
