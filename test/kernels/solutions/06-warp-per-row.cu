  for (int c = lane; c < C; c += 32) m += x[c];
  m = warp_sum(m) / C;
  for (int c = lane; c < C; c += 32) r += (x[c] - m) * (x[c] - m);
  r = rsqrtf(warp_sum(r) / C + eps);
// Next hole.
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
