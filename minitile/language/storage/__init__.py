"""Memory that holds more than its dtype says: int4, two elements in a byte."""
