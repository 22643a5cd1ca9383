// The TensorFlow op CpcAugmentPatches: checks a recipe, then runs patch.h on every patch, shared out over the threads
// that TensorFlow has for the inside of an op.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "patch.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/util/work_sharder.h"

// The compiler writes the patch functions once per class of processor, and the loader takes the best that runs here.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && !defined(CPC_TF_PORTABLE)
#define CPC_TF_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten))
#else
#define CPC_TF_CLONES
#endif

namespace cpc_tf {
namespace {

using namespace tensorflow;  // NOLINT: the field's habit in op files

CPC_TF_CLONES void run_patch(Patch& patch, const Steps& steps, const uint8_t* from, uint8_t* to) {
  patch.run(steps, from, to);
}

REGISTER_OP("CpcAugmentPatches")
    .Input("patches: uint8")
    .Input("jitter: int32")
    .Input("kept: int32")
    .Input("op: int32")
    .Input("magnitude: float32")
    .Input("elastic: bool")
    .Input("displacement: float32")
    .Input("shear: float32")
    .Input("histogram: bool")
    .Input("curve: float32")
    .Input("distort: bool")
    .Input("order: int32")
    .Input("color: float32")
    .Input("grey: bool")
    .Output("augmented: uint8")
    .SetShapeFn(shape_inference::UnchangedShape)
    .Doc("Applies a recipe (cpc_tf/augment/recipe.py) to patches [N, P, P, 3].");

class AugmentPatches : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const Tensor& patches = context->input(0);
    OP_REQUIRES(context, patches.dims() == 4 && patches.dim_size(1) == patches.dim_size(2) && patches.dim_size(3) == 3,
                errors::InvalidArgument("patches must be [N, P, P, 3], got ", patches.shape().DebugString()));
    const int64_t count = patches.dim_size(0), size = patches.dim_size(1), area = size * size;
    OP_REQUIRES(context, size >= 2 && size <= 4096,
                errors::InvalidArgument("patches must have a side of 2 to 4096 px, got ", size));
    OP_REQUIRES_OK(context, check_shapes(context, count));
    OP_REQUIRES_OK(context, check_values(context, size));

    // If nobody else reads the input, its memory takes the output.
    Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output({0}, 0, patches.shape(), &output));
    const uint8_t* from = patches.flat<uint8_t>().data();
    uint8_t* to = output->flat<uint8_t>().data();
    const Tables tables(size);
    const auto work = [&](int64_t begin, int64_t end) {
      Patch patch(size, tables);
      for (int64_t n = begin; n < end; ++n)
        run_patch(patch, steps(context, n), from + 3 * area * n, to + 3 * area * n);
    };
    const auto& workers = *context->device()->tensorflow_cpu_worker_threads();
    constexpr int64_t kCyclesPerPixel = 15;
    Shard(workers.num_threads, workers.workers, count, kCyclesPerPixel * area, work);
  }

 private:
  // Inputs 1..13 are the fields of recipe.Recipe, in its order.
  enum Input { kPatches, kJitter, kKept, kOp, kMagnitude, kElastic, kDisplacement, kShear, kHistogram, kCurve, kDistort,
               kOrder, kColor, kGrey };

  static Status check_shapes(OpKernelContext* context, int64_t count) {
    const int64_t ops = context->input(kOp).dims() == 2 ? context->input(kOp).dim_size(1) : 0;
    const std::vector<std::pair<const char*, TensorShape>> expected = {
        {"jitter", {count, 3}}, {"kept", {count}}, {"op", {count, ops}}, {"magnitude", {count, ops}},
        {"elastic", {count}}, {"displacement", {count, kControlPoints, kControlPoints, 2}}, {"shear", {count, 2}},
        {"histogram", {count}}, {"curve", {count, 3, kCurvePoints}}, {"distort", {count}}, {"order", {count}},
        {"color", {count, 4}}, {"grey", {count}}};
    for (size_t i = 0; i < expected.size(); ++i)
      if (context->input(i + 1).shape() != expected[i].second)
        return errors::InvalidArgument("the recipe's ", expected[i].first, " must be ",
                                       expected[i].second.DebugString(), " for ", count, " patches, got ",
                                       context->input(i + 1).shape().DebugString());
    return OkStatus();
  }

  static Status check_values(OpKernelContext* context, int64_t size) {
    TF_RETURN_IF_ERROR(check_range<int32>(context, kKept, "kept", -1, 2));
    const auto ops = context->input(kOp).flat<int32>();
    for (int64_t i = 0; i < ops.size(); ++i)
      if (std::find(std::begin(kPrimitives), std::end(kPrimitives), ops(i)) == std::end(kPrimitives))
        return errors::InvalidArgument("the recipe's op holds ", ops(i), ", which is no primitive of the native engine");
    TF_RETURN_IF_ERROR(check_range<int32>(context, kOrder, "order", 0, 3));
    // NaN and infinity are out of range too. A million is far beyond any sense, and safe in the arithmetic.
    TF_RETURN_IF_ERROR(check_range<float>(context, kMagnitude, "magnitude", -1e6, 1e6));
    TF_RETURN_IF_ERROR(check_range<float>(context, kDisplacement, "displacement", -1e6, 1e6));
    TF_RETURN_IF_ERROR(check_range<float>(context, kShear, "shear", -1e6, 1e6));
    TF_RETURN_IF_ERROR(check_range<float>(context, kCurve, "curve", -1e6, 1e6));
    TF_RETURN_IF_ERROR(check_range<float>(context, kColor, "color", -1e6, 1e6));
    const auto jitter = context->input(kJitter).matrix<int32>();
    for (int64_t n = 0; n < jitter.dimension(0); ++n)
      for (int k = 0; k < 3; ++k) {
        const int32_t highest = k ? jitter(n, 0) : size - 1;
        if (!(jitter(n, k) >= 0 && jitter(n, k) <= highest))
          return errors::InvalidArgument("the recipe's jitter holds ", jitter(n, k), ", expected 0 to ", highest,
                                         " for patches of ", size, " px");
      }
    return OkStatus();
  }

  template <typename T>
  static Status check_range(OpKernelContext* context, int input, const char* name, T lowest, T highest) {
    const auto values = context->input(input).flat<T>();
    for (int64_t i = 0; i < values.size(); ++i)
      if (!(values(i) >= lowest && values(i) <= highest))
        return errors::InvalidArgument("the recipe's ", name, " holds ", values(i), ", expected ", lowest, " to ",
                                       highest);
    return OkStatus();
  }

  static Steps steps(OpKernelContext* context, int64_t n) {
    const auto row = [&](int input, auto type) {
      const Tensor& tensor = context->input(input);
      return tensor.flat<decltype(type)>().data() + n * (tensor.NumElements() / tensor.dim_size(0));
    };
    return {row(kJitter, int32()),
            *row(kKept, int32()),
            static_cast<int>(context->input(kOp).dim_size(1)),
            row(kOp, int32()),
            row(kMagnitude, float()),
            *row(kElastic, bool()),
            row(kDisplacement, float()),
            row(kShear, float()),
            *row(kHistogram, bool()),
            row(kCurve, float()),
            *row(kDistort, bool()),
            *row(kOrder, int32()),
            row(kColor, float()),
            *row(kGrey, bool())};
  }
};

REGISTER_KERNEL_BUILDER(Name("CpcAugmentPatches").Device(DEVICE_CPU), AugmentPatches);

}  // namespace
}  // namespace cpc_tf
