// A row of recipe.Recipe (recipe.py), and the constants that it shares with the engines.

#ifndef CPC_TF_AUGMENT_RECIPE_H_
#define CPC_TF_AUGMENT_RECIPE_H_

#include <cstdint>

namespace cpc_tf {

constexpr int kControlPoints = 6;      // CONTROL_POINTS of recipe.py
constexpr float kSpacing = 33.f / 80;  // CONTROL_SPACING of recipe.py
constexpr int kCurvePoints = 5;

// PRIMITIVES of recipe.py, in its order.
enum Primitive {
  kShearX, kShearY, kTranslateX, kTranslateY, kRotate, kAutoContrast, kInvert, kEqualize, kSolarize, kPosterize,
  kContrast, kColor, kBrightness, kSharpness, kNumPrimitives
};

// What happens to one patch: a row of recipe.Recipe.
struct Steps {
  const int32_t* jitter;
  int32_t kept;
  int num_ops;
  const int32_t* op;
  const float* magnitude;
  bool elastic;
  const float* displacement;
  const float* shear;
  bool histogram;
  const float* curve;
  bool distort;
  int32_t order;
  const float* color;
  bool grey;
};

}  // namespace cpc_tf

#endif  // CPC_TF_AUGMENT_RECIPE_H_
