// Layer norm and ReLU of examples [M, C], and the gradient, in plain loops that compilers vectorise. Memory traffic is
// what these cost: an example is read once from memory and lies in the cache for the passes over it; nothing between is
// stored, but computed anew. Numbers are float or bfloat16, the latter as its 16 bits; all arithmetic is float.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

// Places are independent, also where an output takes the memory of an input: the compiler need not look for overlaps.
#if defined(__clang__)
#define CPC_TF_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define CPC_TF_INDEPENDENT _Pragma("GCC ivdep")
#else
#define CPC_TF_INDEPENDENT
#endif

namespace cpc_tf {

inline float widen(float value) { return value; }

inline float widen(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float wide;
  std::memcpy(&wide, &bits, sizeof wide);
  return wide;
}

inline void narrow(float value, float& to) { to = value; }

// Rounds to the nearest, ties to even; NaN stays NaN.
inline void narrow(float value, uint16_t& to) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  bits = value == value ? bits + 0x7fff + ((bits >> 16) & 1) : 0x7fc00000;
  to = static_cast<uint16_t>(bits >> 16);
}

// The sum of term(0), ..., term(count - 1), in an order that does not depend on the processor.
template <typename Term>
inline float sum(int64_t count, Term term) {
  constexpr int kLanes = 32;
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int k = 0; k < kLanes; ++k) lanes[k] += term(i + k);
  for (int k = 0; i < count; ++i, ++k) lanes[k] += term(i);
  for (int half = kLanes / 2; half; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  return lanes[0];
}

struct Moments {
  float mean, inverse;  // inverse of the standard deviation
};

// Two passes, and sums of distances from the first number: a mean far from zero costs no precision.
template <typename T>
inline Moments moments(const T* x, int64_t size, float epsilon) {
  const float first = widen(x[0]);
  const float mean = first + sum(size, [=](int64_t i) { return widen(x[i]) - first; }) / size;
  const float squares = sum(size, [=](int64_t i) {
    const float distance = widen(x[i]) - mean;
    return distance * distance;
  });
  return {mean, 1.0f / std::sqrt(squares / size + epsilon)};
}

// relu((x - mean) * inverse * scale + offset) of one example, into y, which may be x. NaN stays NaN.
// slope: scratch, [C].
template <bool relu, typename T>
inline void forward(int64_t size, int64_t channels, const T* x, const float* scale, const float* offset, Moments m,
                    float* slope, T* y) {
  CPC_TF_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) slope[c] = m.inverse * scale[c];
  for (int64_t i = 0; i < size; i += channels) {
    CPC_TF_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c) {
      const float value = (widen(x[i + c]) - m.mean) * slope[c] + offset[c];
      narrow(relu && value <= 0.0f ? 0.0f : value, y[i + c]);
    }
  }
}

// Its gradient. With z = (x - mean) * inverse, u = upstream where the ReLU is open, and g = u * scale:
// d_x = inverse * (g - mean(g) - z * mean(g * z)), d_scale += sum(u * z), d_offset += sum(u).
// d_x may be x or upstream; scratch: [3, C].
template <bool relu, typename T>
inline void backward(int64_t size, int64_t channels, const T* x, const float* scale, const float* offset, Moments m,
                     const T* upstream, float* scratch, T* d_x, float* d_scale, float* d_offset) {
  float *slope = scratch, *sum_u = slope + channels, *sum_ud = sum_u + channels;  // d: distance from the mean
  CPC_TF_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) {
    slope[c] = m.inverse * scale[c];
    sum_u[c] = sum_ud[c] = 0.0f;
  }
  const auto passed = [=](float distance, int64_t i, int64_t c) {
    const float u = widen(upstream[i + c]);
    return !relu || distance * slope[c] + offset[c] > 0.0f ? u : 0.0f;
  };
  for (int64_t i = 0; i < size; i += channels) {
    CPC_TF_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c) {
      const float distance = widen(x[i + c]) - m.mean, u = passed(distance, i, c);
      sum_u[c] += u;
      sum_ud[c] += u * distance;
    }
  }
  const float sum_g = sum(channels, [=](int64_t c) { return sum_u[c] * scale[c]; });
  const float sum_gd = sum(channels, [=](int64_t c) { return sum_ud[c] * scale[c]; });
  const float level = m.inverse * (sum_g / size);
  const float tilt = m.inverse * m.inverse * (m.inverse * (sum_gd / size));
  for (int64_t i = 0; i < size; i += channels) {
    CPC_TF_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c) {
      const float distance = widen(x[i + c]) - m.mean, u = passed(distance, i, c);
      narrow(u * slope[c] - distance * tilt - level, d_x[i + c]);
    }
  }
  CPC_TF_INDEPENDENT
  for (int64_t c = 0; c < channels; ++c) {
    d_scale[c] += m.inverse * sum_ud[c];
    d_offset[c] += sum_u[c];
  }
}

}  // namespace cpc_tf
