"""What operations compute of abstract values: numbers, counters, symbols of a launch, what is not known."""
