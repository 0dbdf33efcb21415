"""The HTTP service: document sessions, the protocols of existing clients, and a page to work in."""
