// LeetGPU's header, which declares the function solve that the file defines.
#pragma once
