// LeetGPU's header, which declares the function solve. Empty, because the file that includes it defines solve.
#pragma once
