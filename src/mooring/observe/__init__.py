"""What can be seen from outside: metrics, events, history, status, the HTTP API."""
