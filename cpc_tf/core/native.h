// What the operations in C++ share.

#pragma once

// The compiler writes a function once per class of processor, and the loader takes the best that runs here.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && !defined(CPC_TF_PORTABLE)
#define CPC_TF_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten))
#else
#define CPC_TF_CLONES
#endif
