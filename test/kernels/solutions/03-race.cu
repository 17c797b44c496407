  sum = warp_sum(sum);
  if (lane == 0) sums[warp] = sum;
  __syncthreads();
  if (warp == 0) sum = warp_sum(lane < warps ? sums[lane] : 0);
