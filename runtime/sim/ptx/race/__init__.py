"""The race model of PTX: happens-before, shadow memory, the async and tensormap proxies."""
