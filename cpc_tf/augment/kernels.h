// What patch.h does row by row and table by table: warps, tables of grey levels, Inception's colour distortion.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

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
    out[i] = pixel([=](int c) {
      const float top = channel(p00, c) + u * (channel(p01, c) - channel(p00, c));
      const float bottom = channel(p10, c) + u * (channel(p11, c) - channel(p10, c));
      return static_cast<int>(top + v * (bottom - top) + 0.5f);
    });
  }
}

using Table = uint8_t[3][256];

inline void count(const std::vector<Pixel>& pixels, uint32_t counts[3][256]) {
  for (Pixel p : pixels)
    for (int c = 0; c < 3; ++c) ++counts[c][channel(p, c)];
}

// PIL's ImageOps.autocontrast.
inline void auto_contrast(const std::vector<Pixel>& pixels, Table& table) {
  uint32_t counts[3][256] = {};
  count(pixels, counts);
  for (int c = 0; c < 3; ++c) {
    int low = 0, high = 255;
    while (low < 255 && !counts[c][low]) ++low;
    while (high > 0 && !counts[c][high]) --high;
    const double scale = high > low ? 255.0 / (high - low) : 1, offset = high > low ? -low * scale : 0;
    for (int i = 0; i < 256; ++i)
      table[c][i] = std::min(std::max(static_cast<int>(i * scale + offset), 0), 255);
  }
}

// PIL's ImageOps.equalize.
inline void equalize(const std::vector<Pixel>& pixels, Table& table) {
  uint32_t counts[3][256] = {};
  count(pixels, counts);
  for (int c = 0; c < 3; ++c) {
    int last = 255;
    while (!counts[c][last]) --last;
    const uint32_t step = (pixels.size() - counts[c][last]) / 255;
    uint32_t sum = step / 2;
    for (int i = 0; i < 256; sum += counts[c][i++]) table[c][i] = step ? std::min(sum / step, 255u) : i;
  }
}

template <typename Map>
void same_table(Table& table, Map map) {
  for (int i = 0; i < 256; ++i) table[0][i] = table[1][i] = table[2][i] = map(i);
}

inline void look_up(std::vector<Pixel>& pixels, const Table& table) {
  Pixel placed[3][256];
  for (int c = 0; c < 3; ++c)
    for (int i = 0; i < 256; ++i) placed[c][i] = Pixel{table[c][i]} << 8 * c;
  for (Pixel& p : pixels) p = placed[0][channel(p, 0)] | placed[1][channel(p, 1)] | placed[2][channel(p, 2)];
}

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
