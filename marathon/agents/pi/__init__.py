"""pi: the default agent, in its own terminal interface or driven over RPC."""
