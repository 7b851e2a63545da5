// Types, layouts and attribute values as they print.
tile kernel @types(%A: tensor<4x"x"xbf16>, %h: f16, %s: f32) attrs {one = (1,), none = none, nested = ((), (true, "a\"b\\n//;")), big = 1e+300, what = nan} {
  %a = alloc {type_ = shared<64x64xbf16>, layout = shared<64x64xb16; 64:1024; 64:16; swizzle 128>, offset = 1024}
  %b = alloc {type_ = local<8xi64>}
  %t = splat %s {shape = (64,)} : tile<64xf32, layout<64; reg 2:32@0; lane 32:1@0>>
  %u = add %t, %t : tile<64xf32, layout<64; reg 2:32@0; lane 32:1@0>>
}
// ----
tile kernel @types(%A: tensor<4x"x"xbf16>, %h: f16, %s: f32) attrs {one = (1,), none = none, nested = ((), (true, "a\"b\\n//;")), big = 1e+300, what = nan} {
  %a = alloc {type_ = shared<64x64xbf16>, layout = shared<64x64xb16; 64:1024; 64:16; swizzle 128>, offset = 1024} : shared<64x64xbf16>
  %b = alloc {type_ = local<8xi64>} : local<8xi64>
  %t = splat %s {shape = (64,)} : tile<64xf32, layout<64; reg 2:32@0; lane 32:1@0>>
  %u = add %t, %t : tile<64xf32, layout<64; reg 2:32@0; lane 32:1@0>>
}
