// The TensorFlow op CpcAugmentPatches: checks a recipe, then runs patch.h on every patch, shared out over the threads
// that TensorFlow has for the inside of an op.

#include <cmath>
#include <string>
#include <vector>

#include "native.h"
#include "patch.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/util/work_sharder.h"

namespace cpc_tf {
namespace {

using namespace tensorflow;  // NOLINT: the field's habit in op files

CPC_TF_CLONES void run_patch(Patch& patch, const Row& row, const uint8_t* from, uint8_t* to) {
  patch.run(row, from, to);
}

#define INPUT(type, name, ...) .Input(#name ": " #type)
REGISTER_OP("CpcAugmentPatches")
    .Input("patches: uint8") CPC_TF_RECIPE(INPUT)
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
        run_patch(patch, row(context, n), from + 3 * area * n, to + 3 * area * n);
    };
    const auto& workers = *context->device()->tensorflow_cpu_worker_threads();
    constexpr int64_t kCyclesPerPixel = 15;
    Shard(workers.num_threads, workers.workers, count, kCyclesPerPixel * area, work);
  }

 private:
  static const Tensor& input(OpKernelContext* context, const char* name) {
    const Tensor* tensor = nullptr;
    TF_CHECK_OK(context->input(name, &tensor));
    return *tensor;
  }

  static Status check_shapes(OpKernelContext* context, int64_t count) {
    const Tensor& op = input(context, "op");
    const int64_t ops = op.dims() == 2 ? op.dim_size(1) : 0;
#define SHAPE(type, name, ...) {#name, {count, __VA_ARGS__}},
    const std::vector<std::pair<const char*, TensorShape>> expected = {CPC_TF_RECIPE(SHAPE)};
    for (const auto& [name, shape] : expected)
      if (input(context, name).shape() != shape)
        return errors::InvalidArgument("the recipe's ", name, " must be ", shape.DebugString(), " for ", count,
                                       " patches, got ", input(context, name).shape().DebugString());
    return OkStatus();
  }

  static Status check_values(OpKernelContext* context, int64_t size) {
    TF_RETURN_IF_ERROR(check_range<int32>(context, "kept", -1, 2));
    TF_RETURN_IF_ERROR(check_range<int32>(context, "op", 0, kPrimitives - 1));
    TF_RETURN_IF_ERROR(check_range<int32>(context, "order", 0, 3));
    // NaN and infinity are out of range too. A million is far beyond any sense, and safe in the arithmetic.
    for (const char* name : {"magnitude", "displacement", "shear", "curve", "color"})
      TF_RETURN_IF_ERROR(check_range<float>(context, name, -1e6, 1e6));
    const auto jitter = input(context, "jitter").matrix<int32>();
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
  static Status check_range(OpKernelContext* context, const char* name, T lowest, T highest) {
    const auto values = input(context, name).flat<T>();
    for (int64_t i = 0; i < values.size(); ++i)
      if (!(values(i) >= lowest && values(i) <= highest))
        return errors::InvalidArgument("the recipe's ", name, " holds ", values(i), ", expected ", lowest, " to ",
                                       highest);
    return OkStatus();
  }

  static Row row(OpKernelContext* context, int64_t n) {
    int field = 0;
    const auto next = [&](auto type) {
      const Tensor& tensor = context->input(++field);
      return tensor.flat<decltype(type)>().data() + n * (tensor.NumElements() / tensor.dim_size(0));
    };
#define NEXT(type, name, ...) next(type()),
    return {CPC_TF_RECIPE(NEXT) static_cast<int>(input(context, "op").dim_size(1))};
  }
};

REGISTER_KERNEL_BUILDER(Name("CpcAugmentPatches").Device(DEVICE_CPU), AugmentPatches);

}  // namespace
}  // namespace cpc_tf
