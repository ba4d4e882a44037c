"""Bytes in and out: addresses, sockets, TLS, websockets, and the waiting."""
