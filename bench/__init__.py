"""Measures pi-marathon against what it is built on: bare Python starts, a bash loop, durable writes."""
