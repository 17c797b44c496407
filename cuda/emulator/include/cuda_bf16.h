#pragma once

#include "narrow-float.h"

GPT2_NARROW_FLOAT(__nv_bfloat16, gpt2_emulator::bf16_to_float, gpt2_emulator::float_to_bf16)
GPT2_NARROW_CONVERSIONS(__nv_bfloat16, bfloat16, bfloat162)
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
