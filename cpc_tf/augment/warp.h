// Rows of a warped patch: nearest pixel for affine warps, linear for the elastic deformation.

#ifndef CPC_TF_AUGMENT_WARP_H_
#define CPC_TF_AUGMENT_WARP_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "pixel.h"

namespace cpc_tf {

// Row of an affine warp in 16.16 fixed point; what comes in from outside is grey.
inline void warp_row(const Pixel* __restrict in, Pixel* __restrict out, int size, int32_t column, int32_t column_step,
                     int32_t row, int32_t row_step) {
  for (int i = 0; i < size; ++i) {
    const int32_t x = (column + column_step * i) >> 16, y = (row + row_step * i) >> 16;
    const Pixel inside = -static_cast<Pixel>((x >= 0) & (x < size) & (y >= 0) & (y < size));  // all bits or none
    out[i] = (in[(y * size + x) & inside] & inside) | (kFill & ~inside);
  }
}

// One row of pixels at any positions, linear; outside, the patch is mirrored without repeating its edge.
inline void sample(const Pixel* __restrict in, Pixel* __restrict out, int size, const float* __restrict ys,
                   const float* __restrict xs) {
  const float last = size - 1, period = 2 * last;
  const auto mirror = [=](float v) {
    v = std::fabs(v);
    v -= period * std::floor(v / period);
    return clip(std::min(v, period - v), 0.f, last);
  };
  for (int i = 0; i < size; ++i) {
    const float y = mirror(ys[i]), x = mirror(xs[i]);
    const int row = std::min(static_cast<int>(y), size - 2), column = std::min(static_cast<int>(x), size - 2);
    const float v = y - row, u = x - column;
    const int corner = row * size + column;
    const Pixel p00 = in[corner], p01 = in[corner + 1], p10 = in[corner + size], p11 = in[corner + size + 1];
    const auto mix = [=](int a, int b, int c, int d) {
      const float top = a + u * (b - a), bottom = c + u * (d - c);
      return static_cast<int>(top + v * (bottom - top) + 0.5f);
    };
    out[i] = pixel(mix(red(p00), red(p01), red(p10), red(p11)),
                   mix(green(p00), green(p01), green(p10), green(p11)),
                   mix(blue(p00), blue(p01), blue(p10), blue(p11)));
  }
}

}  // namespace cpc_tf

#endif  // CPC_TF_AUGMENT_WARP_H_
