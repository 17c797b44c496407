#pragma once

#include "narrow-float.h"

GPT2_NARROW_FLOAT(__half, gpt2_emulator::fp16_to_float, gpt2_emulator::float_to_fp16)
GPT2_NARROW_CONVERSIONS(__half, half, half2)
using half = __half;
using half2 = __half2;
