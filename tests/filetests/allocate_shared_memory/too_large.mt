// pass: allocate_shared_memory
// target: sm_89
thread kernel @too_large(%A: tensor<1024xf32>) attrs {threads = 128} {
  %As = alloc {type_ = shared<4 versions x 128x64xf32>} // expect-error: the kernel needs 139264 bytes of shared memory at once; sm_89 has 101376
  %Bs = alloc {type_ = shared<64x32xf32>}
  %a = buffer_address %As
  store_mem %a, 1.0, %As, slot = 0 {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %a, 1.0, %Bs {space = "shared", address_of = (0,), offsets = (0,)}
  store_mem %a, 1.0, %As, slot = 1 {space = "shared", address_of = (0,), offsets = (0,)}
}
