"""From a Python function to a running kernel: the decorator, specialisation, dispatch, caches, the ordered passes."""
