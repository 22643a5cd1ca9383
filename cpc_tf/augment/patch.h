// The steps of reference.py on one patch, in plain C++ without TensorFlow.
//
// A patch lies in the processor's cache as one 32-bit word per pixel, so that a warp moves a
// pixel at once and the compiler can treat the channels of many pixels side by side. Each step maps grey levels to grey
// levels with the arithmetic of reference.py: same formulas, float32, no fused multiply-add (-ffp-contract=off).

#ifndef CPC_TF_AUGMENT_PATCH_H_
#define CPC_TF_AUGMENT_PATCH_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "pixel.h"
#include "recipe.h"

namespace cpc_tf {

// A patch and room to work on it. One per thread.
class Patch {
 public:
  Patch(int size, const Tables& tables)
      : size_(size), area_(size * size), tables_(tables), pixels_(area_), other_(area_), planes_(3 * area_) {}

  // Applies the steps in the order of appendix A; `from` and `to` are [size, size, 3] and may be the same.
  void run(const Steps& steps, const uint8_t* from, uint8_t* to) {
    load(from, pixels_.data(), area_);
    if (steps.jitter[0] > 0) jitter(steps.jitter[0], steps.jitter[1], steps.jitter[2]);
    if (steps.kept >= 0) keep_channel(steps.kept);
    for (int i = 0; i < steps.num_ops; ++i) primitive(steps.op[i], steps.magnitude[i]);
    if (steps.elastic) elastic(steps.displacement, steps.shear);
    if (steps.histogram) histogram(steps.curve);
    if (steps.distort) distort(steps.order, steps.color);
    if (steps.grey) grey();
    store(pixels_.data(), to, area_);
  }

 private:
  using Table = uint8_t[3][256];

  // Many loops below take sizes and pointers as locals: what the compiler knows not to change, it can vectorise.
  static void load(const uint8_t* __restrict from, Pixel* __restrict pixels, int area) {
    for (int i = 0; i < area; ++i) pixels[i] = pixel(from[3 * i], from[3 * i + 1], from[3 * i + 2]);
  }

  static void store(const Pixel* __restrict pixels, uint8_t* __restrict to, int area) {
    for (int i = 0; i < area; ++i) {
      to[3 * i] = red(pixels[i]);
      to[3 * i + 1] = green(pixels[i]);
      to[3 * i + 2] = blue(pixels[i]);
    }
  }

  void jitter(int margin, int top, int left) {
    const int before = margin / 2, part = size_ - margin;
    std::fill(other_.begin(), other_.end(), kFill);
    for (int y = 0; y < part; ++y)
      std::copy_n(&pixels_[(y + top) * size_ + left], part, &other_[(y + before) * size_ + before]);
    pixels_.swap(other_);
  }

  void keep_channel(int kept) {
    const Pixel mask = Pixel{255} << 8 * kept;
    for (Pixel& p : pixels_) p = (p & mask) | (kFill & ~mask);
  }

  void primitive(int op, float magnitude) {
    Table table;
    switch (op) {
      case kShearX: return warp(1, magnitude, 0, 0, 1, 0);
      case kShearY: return warp(1, 0, 0, magnitude, 1, 0);
      case kTranslateX: return warp(1, 0, shift(magnitude), 0, 1, 0);
      case kTranslateY: return warp(1, 0, 0, 0, 1, shift(magnitude));
      case kRotate: return rotate(magnitude);
      case kColor: return color_balance(magnitude);
      case kSharpness: return sharpness(magnitude);
      case kAutoContrast: auto_contrast(table); break;
      case kEqualize: equalize(table); break;
      case kInvert: same_table(table, [](int i) { return 255 - i; }); break;
      case kSolarize: same_table(table, [=](int i) { return i < magnitude ? i : 255 - i; }); break;
      case kPosterize: {
        const int mask = 256 - (1 << (8 - static_cast<int>(clip(magnitude, 0.f, 8.f))));
        same_table(table, [=](int i) { return i & mask; });
        break;
      }
      case kContrast: {
        int64_t sum = 0;
        for (Pixel p : pixels_) sum += luma(p);
        const int mean = static_cast<int>((2 * sum + area_) / (2 * area_));
        same_table(table, [=](int i) { return blend(mean, i, magnitude); });
        break;
      }
      case kBrightness: same_table(table, [=](int i) { return blend(0, i, magnitude); }); break;
    }
    look_up(table);
  }

  double shift(float magnitude) const { return clip(std::floor(magnitude + 0.5), -size_, size_); }

  // PIL's affine transformation, nearest neighbour: output (x, y) shows input (a x + b y + c, d x + e y + f), pixel
  // centres at halves, in 16.16 fixed point.
  void warp(double a, double b, double c, double d, double e, double f) {
    // The fixed point must not overflow; a patch sheared beyond this is empty anyway.
    const double limit = 32767.0 / (4 * size_);
    const auto fix = [](double v) { return static_cast<int32_t>(std::floor(v * 65536 + 0.5)); };
    b = std::min(std::max(b, -limit), limit), d = std::min(std::max(d, -limit), limit);
    const int32_t fa = fix(a), fb = fix(b), fc = fix(c + a * 0.5 + b * 0.5);
    const int32_t fd = fix(d), fe = fix(e), ff = fix(f + d * 0.5 + e * 0.5);
    for (int y = 0; y < size_; ++y)
      warp_row(pixels_.data(), &other_[y * size_], size_, fc + fb * y, fa, ff + fe * y, fd);
    pixels_.swap(other_);
  }

  static void warp_row(const Pixel* __restrict in, Pixel* __restrict out, int size, int32_t column, int32_t column_step,
                       int32_t row, int32_t row_step) {
    for (int i = 0; i < size; ++i) {
      const int32_t x = (column + column_step * i) >> 16, y = (row + row_step * i) >> 16;
      const Pixel inside = -static_cast<Pixel>((x >= 0) & (x < size) & (y >= 0) & (y < size));  // all bits or none
      out[i] = (in[(y * size + x) & inside] & inside) | (kFill & ~inside);
    }
  }

  // PIL's Image.rotate: counter-clockwise about the centre.
  void rotate(float degrees) {
    const double angle = -degrees * (M_PI / 180), centre = size_ / 2.0;
    const double cosine = std::cos(angle), sine = std::sin(angle);
    warp(cosine, sine, centre - centre * (cosine + sine), -sine, cosine, centre - centre * (cosine - sine));
  }

  void color_balance(float factor) {
    for (Pixel& p : pixels_) {
      const int grey = luma(p);
      p = pixel(blend(grey, red(p), factor), blend(grey, green(p), factor), blend(grey, blue(p), factor));
    }
  }

  // Blends with PIL's SMOOTH filter, [[1,1,1],[1,5,1],[1,1,1]] / 13; the border stays.
  void sharpness(float factor) {
    other_ = pixels_;
    const int row = 4 * size_;
    const uint8_t* in = reinterpret_cast<const uint8_t*>(pixels_.data());
    uint8_t* out = reinterpret_cast<uint8_t*>(other_.data());
    for (int y = 1; y < size_ - 1; ++y) {
      const uint8_t *above = in + (y - 1) * row, *here = above + row, *below = here + row;
      uint8_t* to = out + y * row;
      for (int x = 4; x < row - 4; ++x) {
        const int sum = above[x - 4] + above[x] + above[x + 4] + here[x - 4] + 5 * here[x] + here[x + 4] +
                        below[x - 4] + below[x] + below[x + 4];
        to[x] = blend((2 * sum + 13) / 26, here[x], factor);
      }
    }
    pixels_.swap(other_);
  }

  void count(uint32_t counts[3][256]) const {
    std::memset(counts, 0, 3 * 256 * sizeof(uint32_t));
    for (Pixel p : pixels_) ++counts[0][red(p)], ++counts[1][green(p)], ++counts[2][blue(p)];
  }

  // PIL's ImageOps.autocontrast.
  void auto_contrast(Table& table) const {
    uint32_t counts[3][256];
    count(counts);
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
  void equalize(Table& table) const {
    uint32_t counts[3][256];
    count(counts);
    for (int c = 0; c < 3; ++c) {
      int last = 255;
      while (!counts[c][last]) --last;
      const uint32_t step = (area_ - counts[c][last]) / 255;
      uint32_t sum = step / 2;
      for (int i = 0; i < 256; sum += counts[c][i++]) table[c][i] = step ? std::min(sum / step, 255u) : i;
    }
  }

  template <typename Map>
  static void same_table(Table& table, Map map) {
    for (int i = 0; i < 256; ++i) table[0][i] = table[1][i] = table[2][i] = map(i);
  }

  void look_up(const Table& table) {
    Pixel placed[3][256];
    for (int c = 0; c < 3; ++c)
      for (int i = 0; i < 256; ++i) placed[c][i] = Pixel{table[c][i]} << 8 * c;
    for (Pixel& p : pixels_) p = placed[0][red(p)] | placed[1][green(p)] | placed[2][blue(p)];
  }

  // De Fauw et al. 2018: see elastic in reference.py.
  void elastic(const float* displacement, const float* shear) {
    const float spacing = kSpacing * size_, centre = (size_ - 1) * 0.5f;
    float points[2][kControlPoints][kControlPoints];
    for (int i = 0; i < kControlPoints; ++i)
      for (int j = 0; j < kControlPoints; ++j) {
        const float y = (i - 2.5f) * spacing + displacement[2 * (i * kControlPoints + j)];
        const float x = (j - 2.5f) * spacing + displacement[2 * (i * kControlPoints + j) + 1];
        points[0][i][j] = y + shear[0] * x + centre;
        points[1][i][j] = shear[1] * y + x + centre;
      }
    float* place[2] = {planes_.data(), planes_.data() + size_};
    for (int y = 0; y < size_; ++y) {
      for (int axis = 0; axis < 2; ++axis) {
        std::fill_n(place[axis], size_, 0.f);
        for (int j = 0; j < kControlPoints; ++j) {
          float point = 0;
          for (int i = 0; i < kControlPoints; ++i) point += tables_.spline[i * size_ + y] * points[axis][i][j];
          for (int x = 0; x < size_; ++x) place[axis][x] += point * tables_.spline[j * size_ + x];
        }
      }
      sample(pixels_.data(), &other_[y * size_], size_, place[0], place[1]);
    }
    pixels_.swap(other_);
  }

  // One row of pixels at any places, linear; outside, the patch is mirrored without repeating its edge.
  static void sample(const Pixel* __restrict in, Pixel* __restrict out, int size, const float* __restrict ys,
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

  void histogram(const float* curve) {
    Table table;
    for (int c = 0; c < 3; ++c)
      for (int level = 0; level < 256; ++level) {
        float value = 0;
        for (int k = 0; k < kCurvePoints; ++k) value += curve[c * kCurvePoints + k] * tables_.curve[k][level];
        table[c][level] = rounded(255 * value);
      }
    look_up(table);
  }

  // Inception's distortion in two rounds: see color.py.
  void distort(int order, const float* color) {
    static constexpr bool kFirst[4][4] = {{1, 1, 1, 0}, {0, 1, 0, 0}, {0, 0, 1, 1}, {0, 1, 1, 0}};
    static constexpr float kNeutral[4] = {0, 1, 0, 1};
    const int area = area_;
    Pixel* pixels = pixels_.data();
    float *__restrict r = planes_.data(), *__restrict g = r + area, *__restrict b = g + area;
    for (int i = 0; i < area; ++i) {
      r[i] = red(pixels[i]);
      g[i] = green(pixels[i]);
      b[i] = blue(pixels[i]);
    }
    for (int round = 0; round < 2; ++round) {
      float now[4];
      for (int k = 0; k < 4; ++k) now[k] = kFirst[order][k] != round ? color[k] : kNeutral[k];
      float add[3];
      for (int c = 0; c < 3; ++c) add[c] = now[3] == 1 ? now[0] : mean(r + c * area, area) * (1 - now[3]) + now[0];
      if (now[1] == 1 && now[2] == 0) {
        for (int i = 0; i < area; ++i) {
          r[i] = r[i] * now[3] + add[0];
          g[i] = g[i] * now[3] + add[1];
          b[i] = b[i] * now[3] + add[2];
        }
      } else {
        saturation_hue(r, g, b, area, now[3], add, now[1], now[2]);
      }
    }
    for (int i = 0; i < area; ++i) pixels[i] = pixel(rounded(r[i]), rounded(g[i]), rounded(b[i]));
  }

  static float mean(const float* x, int count) {
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
  static void saturation_hue(float* __restrict r, float* __restrict g, float* __restrict b, int area, float contrast,
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

  void grey() {
    for (Pixel& p : pixels_) p = 0x010101 * rounded(0.2989f * red(p) + 0.587f * green(p) + 0.114f * blue(p));
  }

  const int size_, area_;
  const Tables& tables_;
  std::vector<Pixel> pixels_, other_;
  std::vector<float> planes_;  // [3, size, size]
};

}  // namespace cpc_tf

#endif  // CPC_TF_AUGMENT_PATCH_H_
