"""Many calls over one stream, between the processes of a plane (taskplane.api.tunnel.v1)."""
