"""The simulator of PTX: parser, decoder, scheduler, machine."""
