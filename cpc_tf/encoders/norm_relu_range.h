// norm_relu.h over ranges of examples, for the processor that it runs on.

#pragma once

#include <algorithm>
#include <vector>

#include "native.h"
#include "norm_relu.h"

namespace cpc_tf {
namespace {

// The memory of an op's inputs and outputs: N examples of `size` numbers.
template <typename T>
struct Forward {
  int64_t size, channels;
  float epsilon;
  const T* x;
  const float *scale, *offset;
  T* y;
  float *mean, *inverse;

  template <bool relu>
  void run(int64_t begin, int64_t end) const {
    std::vector<float> slope(channels);
    for (int64_t n = begin; n < end; ++n) {
      const Moments m = moments(x + n * size, size, epsilon);
      mean[n] = m.mean;
      inverse[n] = m.inverse;
      forward<relu>(size, channels, x + n * size, scale, offset, m, slope.data(), y + n * size);
    }
  }
};

template <typename T>
struct Backward {
  int64_t size, channels;
  const T* x;
  const float *scale, *offset, *mean, *inverse;
  const T* upstream;
  T* d_x;

  // d_scale and d_offset are of these examples alone.
  template <bool relu>
  void run(int64_t begin, int64_t end, float* d_scale, float* d_offset) const {
    std::vector<float> scratch(3 * channels);
    std::fill_n(d_scale, channels, 0.0f);
    std::fill_n(d_offset, channels, 0.0f);
    for (int64_t n = begin; n < end; ++n)
      backward<relu>(size, channels, x + n * size, scale, offset, {mean[n], inverse[n]}, upstream + n * size,
                     scratch.data(), d_x + n * size, d_scale, d_offset);
  }
};

// No templates: GCC clones none.
#define CPC_TF_RUN(T)                                                                                           \
  CPC_TF_CLONES void run(const Forward<T>& op, bool relu, int64_t begin, int64_t end) {                         \
    relu ? op.template run<true>(begin, end) : op.template run<false>(begin, end);                              \
  }                                                                                                             \
  CPC_TF_CLONES void run(const Backward<T>& op, bool relu, int64_t begin, int64_t end, float* s, float* o) {    \
    relu ? op.template run<true>(begin, end, s, o) : op.template run<false>(begin, end, s, o);                  \
  }
CPC_TF_RUN(float)
CPC_TF_RUN(uint16_t)

}  // namespace
}  // namespace cpc_tf
