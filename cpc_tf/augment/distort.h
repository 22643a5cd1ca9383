// Parts of Inception's colour distortion, on planes of float32: see color.py.

#ifndef CPC_TF_AUGMENT_DISTORT_H_
#define CPC_TF_AUGMENT_DISTORT_H_

#include <algorithm>
#include <cmath>

#include "pixel.h"

namespace cpc_tf {

inline float mean(const float* x, int count) {
  // Many sums side by side: more precise than one, and the compiler may not reorder them itself.
  float sums[64] = {};
  int i = 0;
  for (; i + 64 <= count; i += 64)
    for (int k = 0; k < 64; ++k) sums[k] += x[i + k];
  double total = 0;
  for (; i < count; ++i) total += x[i];
  for (float sum : sums) total += sum;
  return static_cast<float>(total / count);
}

// x * contrast + add, then saturation and hue.
inline void saturation_hue(float* __restrict r, float* __restrict g, float* __restrict b, int area, float contrast,
                           const float add[3], float saturation, float hue) {
  const float turn = 6 * hue;
  const bool keep = saturation == 1;
  for (int i = 0; i < area; ++i) {
    const float red = r[i] * contrast + add[0], green = g[i] * contrast + add[1], blue = b[i] * contrast + add[2];
    const float value = std::max(std::max(red, green), blue);
    const float chroma = value - std::min(std::min(red, green), blue);
    const float difference = value == red ? green - blue : value == green ? blue - red : red - green;
    const float base = value == red ? 0.f : value == green ? 2.f : 4.f;
    const float sextant = difference / std::max(chroma, 1e-20f) + base + turn;
    const float saturated = keep ? chroma : std::max(std::min(saturation * chroma, value), 0.f);
    const auto channel = [=](float n) {
      float k = sextant + n;
      k -= 6 * std::floor(k * (1 / 6.f));
      return value - saturated * clip(std::min(k, 4 - k), 0.f, 1.f);
    };
    r[i] = channel(5), g[i] = channel(3), b[i] = channel(1);
  }
}

}  // namespace cpc_tf

#endif  // CPC_TF_AUGMENT_DISTORT_H_
