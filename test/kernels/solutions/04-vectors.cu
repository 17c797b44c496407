  if (whole) {
    const float4 x = reinterpret_cast<const float4 *>(a)[i], y = reinterpret_cast<const float4 *>(b)[i];
    reinterpret_cast<float4 *>(out)[i] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
  } else {
    for (long long j = 4 * i; j < 4 * i + 4 && j < count; j++) out[j] = a[j] + b[j];
  }
