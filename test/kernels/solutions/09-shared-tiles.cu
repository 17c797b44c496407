    const int c = first + threadIdx.x, weight_row = blockIdx.x * tile + threadIdx.y;
    in_tile[threadIdx.y][threadIdx.x] = row < N && c < C ? in[static_cast<size_t>(row) * C + c] : 0;
    weight_tile[threadIdx.y][threadIdx.x] = weight_row < O && c < C ? weight[static_cast<size_t>(weight_row) * C + c] : 0;
    __syncthreads();
    for (int k = 0; k < tile; k++) sum += in_tile[threadIdx.y][k] * weight_tile[threadIdx.x][k];
    __syncthreads();
