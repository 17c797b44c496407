// Stands in for LeetGPU's solve.h, which declares the function solve: the file that includes it defines solve.
#pragma once
