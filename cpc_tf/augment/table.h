// Grey levels through a table per channel, and the tables of PIL's histogram operations.

#ifndef CPC_TF_AUGMENT_TABLE_H_
#define CPC_TF_AUGMENT_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "pixel.h"

namespace cpc_tf {

using Table = uint8_t[3][256];

inline void count(const std::vector<Pixel>& pixels, uint32_t counts[3][256]) {
  std::memset(counts, 0, 3 * 256 * sizeof(uint32_t));
  for (Pixel p : pixels) ++counts[0][red(p)], ++counts[1][green(p)], ++counts[2][blue(p)];
}

// PIL's ImageOps.autocontrast.
inline void auto_contrast(const std::vector<Pixel>& pixels, Table& table) {
  uint32_t counts[3][256];
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
  uint32_t counts[3][256];
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
  for (Pixel& p : pixels) p = placed[0][red(p)] | placed[1][green(p)] | placed[2][blue(p)];
}

}  // namespace cpc_tf

#endif  // CPC_TF_AUGMENT_TABLE_H_
