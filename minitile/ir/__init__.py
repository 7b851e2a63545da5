"""The IR: types, values, operations, kernels and their text form."""
