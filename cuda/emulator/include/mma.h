#error "tensor cores (mma.h) are not emulated on a CPU: run this kernel on a GPU"
