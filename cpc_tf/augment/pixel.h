// A recipe's row, pixels, PIL's arithmetic on them, and the B-splines.

#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cpc_tf {

// The primitives of operations.py, by the numbers that they have there.
enum Primitive : int32_t {
  kShearX, kShearY, kTranslateX, kTranslateY, kRotate, kAutoContrast, kInvert, kEqualize, kSolarize, kPosterize,
  kContrast, kColor, kBrightness, kSharpness, kPrimitives
};

constexpr int kControlPoints = 6;      // CONTROL_POINTS of steps.py
constexpr float kSpacing = 33.f / 80;  // CONTROL_SPACING of steps.py
constexpr int kCurvePoints = 5;

using int32 = int32_t;

// FIELD(type, name, shape of a patch's part): the fields of recipe.Recipe, in its order.
#define CPC_TF_RECIPE(FIELD)                                    \
  FIELD(int32, jitter, 3)                                       \
  FIELD(int32, kept)                                            \
  FIELD(int32, op, ops)                                         \
  FIELD(float, magnitude, ops)                                  \
  FIELD(bool, elastic)                                          \
  FIELD(float, displacement, kControlPoints, kControlPoints, 2) \
  FIELD(float, shear, 2)                                        \
  FIELD(bool, histogram)                                        \
  FIELD(float, curve, 3, kCurvePoints)                          \
  FIELD(bool, distort)                                          \
  FIELD(int32, order)                                           \
  FIELD(float, color, 4)                                        \
  FIELD(bool, grey)

// What happens to one patch.
struct Row {
#define CPC_TF_POINTER(type, name, ...) const type* name;
  CPC_TF_RECIPE(CPC_TF_POINTER)
  int ops;
};

using Pixel = uint32_t;            // 0x00BBGGRR, PIL's layout
constexpr Pixel kFill = 0x808080;  // FILL of primitives.py

inline int channel(Pixel p, int c) { return p >> 8 * c & 255; }
template <typename Level>
inline Pixel pixel(Level level) {  // of the three levels that `level` gives for channels 0 to 2
  return level(0) | level(1) << 8 | level(2) << 16;
}
inline int luma(Pixel p) {  // PIL's "L"
  return (channel(p, 0) * 19595 + channel(p, 1) * 38470 + channel(p, 2) * 7471 + 0x8000) >> 16;
}
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
