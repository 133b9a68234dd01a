"""What the pytorch backend runs in the processes of Python models; nothing of the server imports it."""
