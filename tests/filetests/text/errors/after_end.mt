// One kernel a file, and nothing behind it.
tile kernel @k() {
}
tile kernel @l() {  // expect-error: expected the end of the text
}
