// Pixels, PIL's arithmetic on them, and the B-splines.

#ifndef CPC_TF_AUGMENT_PIXEL_H_
#define CPC_TF_AUGMENT_PIXEL_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "recipe.h"

namespace cpc_tf {

using Pixel = uint32_t;            // 0x00BBGGRR, PIL's layout
constexpr Pixel kFill = 0x808080;  // FILL of primitives.py

inline int red(Pixel p) { return p & 255; }
inline int green(Pixel p) { return p >> 8 & 255; }
inline int blue(Pixel p) { return p >> 16 & 255; }
inline Pixel pixel(int r, int g, int b) { return r | g << 8 | b << 16; }
inline int luma(Pixel p) { return (red(p) * 19595 + green(p) * 38470 + blue(p) * 7471 + 0x8000) >> 16; }  // PIL's "L"
inline float clip(float x, float low, float high) { return std::min(std::max(x, low), high); }
inline int rounded(float x) { return static_cast<int>(clip(x, 0.f, 255.f) + 0.5f); }
// PIL's ImagingBlend: the fraction is cut off, not rounded.
inline int blend(int from, int to, float factor) {
  return static_cast<int>(clip(static_cast<float>(from) + factor * static_cast<float>(to - from), 0.f, 255.f));
}

// Cubic B-spline weights of the four points around a position `t` between the middle two.
inline void spline_weights(double t, double weights[4]) {
  weights[0] = (1 - t) * (1 - t) * (1 - t) / 6;
  weights[1] = (3 * t * t * t - 6 * t * t + 4) / 6;
  weights[2] = (-3 * t * t * t + 3 * t * t + 3 * t + 1) / 6;
  weights[3] = t * t * t / 6;
}

// What depends on the patch's size alone.
struct Tables {
  explicit Tables(int size) : spline(kControlPoints * size) {
    const double spacing = kSpacing * size;
    double w[4];
    for (int i = 0; i < size; ++i) {
      const double position = (i - (size - 1) / 2.0) / spacing + (kControlPoints - 1) / 2.0;
      const int point = static_cast<int>(position);
      spline_weights(position - point, w);
      for (int k = 0; k < 4; ++k) spline[(point - 1 + k) * size + i] = static_cast<float>(w[k]);
    }
    for (int level = 0; level < 256; ++level) {
      const double position = level / 255.0 * (kCurvePoints - 1);
      const int point = std::min(static_cast<int>(position), kCurvePoints - 2);
      spline_weights(position - point, w);
      double row[kCurvePoints + 2] = {};  // with one point more at either end, on the straight line
      for (int k = 0; k < 4; ++k) row[point + k] = w[k];
      row[1] += 2 * row[0], row[2] -= row[0];
      row[kCurvePoints] += 2 * row[kCurvePoints + 1], row[kCurvePoints - 1] -= row[kCurvePoints + 1];
      for (int k = 0; k < kCurvePoints; ++k) curve[k][level] = static_cast<float>(row[k + 1]);
    }
  }
  std::vector<float> spline;         // [6, size]: control points to pixels
  float curve[kCurvePoints][256];    // curve points to grey levels
};

}  // namespace cpc_tf

#endif  // CPC_TF_AUGMENT_PIXEL_H_
