// The operations on one patch, in plain C++ without TensorFlow.
//
// A patch lies in the processor's cache as one 32-bit word per pixel, so that a warp moves a
// pixel at once and the compiler can treat the channels of many pixels side by side. Each step maps grey levels to grey
// levels with the arithmetic of primitives.py and steps.py: same formulas, float32, no fused multiply-add (-ffp-contract=off).

#pragma once

#include "kernels.h"

namespace cpc_tf {

// A patch and room to work on it. One per thread.
class Patch {
 public:
  Patch(int size, const Tables& tables)
      : size_(size), area_(size * size), tables_(tables), pixels_(area_), other_(area_), planes_(3 * area_) {}

  // Applies the steps in the order of appendix A; `from` and `to` are [size, size, 3] and may be the same.
  void run(const Row& row, const uint8_t* from, uint8_t* to) {
    load(from, pixels_.data(), area_);
    if (row.jitter[0] > 0) jitter(row.jitter[0], row.jitter[1], row.jitter[2]);
    if (*row.kept >= 0) keep_channel(*row.kept);
    for (int i = 0; i < row.ops; ++i) primitive(row.op[i], row.magnitude[i]);
    if (*row.elastic) elastic(row.displacement, row.shear);
    if (*row.histogram) histogram(row.curve);
    if (*row.distort) distort(*row.order, row.color);
    if (*row.grey) grey();
    store(pixels_.data(), to, area_);
  }

 private:
  // Many loops below take sizes and pointers as locals: what the compiler knows not to change, it can vectorise.
  static void load(const uint8_t* __restrict from, Pixel* __restrict pixels, int area) {
    for (int i = 0; i < area; ++i) pixels[i] = pixel([=](int c) { return from[3 * i + c]; });
  }

  static void store(const Pixel* __restrict pixels, uint8_t* __restrict to, int area) {
    for (int i = 0; i < area; ++i)
      for (int c = 0; c < 3; ++c) to[3 * i + c] = channel(pixels[i], c);
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
// The build fails if a primitive is missing here.
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wswitch"
    switch (static_cast<Primitive>(op)) {
      case kShearX: return warp(1, magnitude, 0, 0, 1, 0);
      case kShearY: return warp(1, 0, 0, magnitude, 1, 0);
      case kTranslateX: return warp(1, 0, shift(magnitude), 0, 1, 0);
      case kTranslateY: return warp(1, 0, 0, 0, 1, shift(magnitude));
      case kRotate: return rotate(magnitude);
      case kColor: return color_balance(magnitude);
      case kSharpness: return sharpness(magnitude);
      case kAutoContrast: auto_contrast(pixels_, table); break;
      case kEqualize: equalize(pixels_, table); break;
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
      case kPrimitives: break;  // their number
    }
#pragma GCC diagnostic pop
    look_up(pixels_, table);
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

  // PIL's Image.rotate: counter-clockwise about the centre.
  void rotate(float degrees) {
    const double angle = -degrees * (M_PI / 180), centre = size_ / 2.0;
    const double cosine = std::cos(angle), sine = std::sin(angle);
    warp(cosine, sine, centre - centre * (cosine + sine), -sine, cosine, centre - centre * (cosine - sine));
  }

  void color_balance(float factor) {
    for (Pixel& p : pixels_) {
      const int grey = luma(p);
      p = pixel([=](int c) { return blend(grey, channel(p, c), factor); });
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

  // De Fauw et al. 2018: see elastic in steps.py.
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
    float* position[2] = {planes_.data(), planes_.data() + size_};
    for (int y = 0; y < size_; ++y) {
      for (int axis = 0; axis < 2; ++axis) {
        std::fill_n(position[axis], size_, 0.f);
        for (int j = 0; j < kControlPoints; ++j) {
          float point = 0;
          for (int i = 0; i < kControlPoints; ++i) point += tables_.spline[i * size_ + y] * points[axis][i][j];
          for (int x = 0; x < size_; ++x) position[axis][x] += point * tables_.spline[j * size_ + x];
        }
      }
      sample(pixels_.data(), &other_[y * size_], size_, position[0], position[1]);
    }
    pixels_.swap(other_);
  }

  void histogram(const float* curve) {
    Table table;
    for (int c = 0; c < 3; ++c)
      for (int level = 0; level < 256; ++level) {
        float value = 0;
        for (int k = 0; k < kCurvePoints; ++k) value += curve[c * kCurvePoints + k] * tables_.curve[k][level];
        table[c][level] = rounded(255 * value);
      }
    look_up(pixels_, table);
  }

  // Inception's distortion in two rounds: see color.py.
  void distort(int order, const float* color) {
    static constexpr bool kFirst[4][4] = {{1, 1, 1, 0}, {0, 1, 0, 0}, {0, 0, 1, 1}, {0, 1, 1, 0}};
    static constexpr float kNeutral[4] = {0, 1, 0, 1};
    const int area = area_;
    Pixel* __restrict pixels = pixels_.data();
    float* __restrict planes = planes_.data();
    for (int c = 0; c < 3; ++c)
      for (int i = 0; i < area; ++i) planes[c * area + i] = channel(pixels[i], c);
    for (int round = 0; round < 2; ++round) {
      float now[4];
      for (int k = 0; k < 4; ++k) now[k] = kFirst[order][k] != round ? color[k] : kNeutral[k];
      float add[3];
      for (int c = 0; c < 3; ++c) add[c] = now[3] == 1 ? now[0] : mean(planes + c * area, area) * (1 - now[3]) + now[0];
      if (now[1] == 1 && now[2] == 0) {
        for (int c = 0; c < 3; ++c)
          for (int i = 0; i < area; ++i) planes[c * area + i] = planes[c * area + i] * now[3] + add[c];
      } else {
        saturation_hue(planes, planes + area, planes + 2 * area, area, now[3], add, now[1], now[2]);
      }
    }
    for (int i = 0; i < area; ++i) pixels[i] = pixel([=](int c) { return rounded(planes[c * area + i]); });
  }

  void grey() {
    for (Pixel& p : pixels_)
      p = 0x010101 * rounded(0.2989f * channel(p, 0) + 0.587f * channel(p, 1) + 0.114f * channel(p, 2));
  }

  const int size_, area_;
  const Tables& tables_;
  std::vector<Pixel> pixels_, other_;
  std::vector<float> planes_;  // [3, size, size]
};

}  // namespace cpc_tf
