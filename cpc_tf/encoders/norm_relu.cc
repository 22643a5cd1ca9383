// The TensorFlow ops CpcNormRelu and CpcNormReluGrad: check their inputs, then run norm_relu.h on every example, shared
// out over the threads that TensorFlow has for the inside of an op. The number of threads changes no bit.

#include "norm_relu.h"

#include <algorithm>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/util/work_sharder.h"

// The compiler writes a function once per class of processor, and the loader takes the best that runs here.
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && !defined(CPC_TF_PORTABLE)
#define CPC_TF_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), flatten))
#else
#define CPC_TF_CLONES
#endif

namespace cpc_tf {
namespace {

using namespace tensorflow;  // NOLINT: the field's habit in op files
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

// The memory of an op's inputs and outputs: N examples of `size` numbers.
template <typename T>
struct Forward {
  int64_t size, channels;
  float epsilon;
  const T* x;
  const float *scale, *offset;
  T* y;
  float *mean, *inverse;

  template <bool relu>
  void run(int64_t begin, int64_t end) const {
    std::vector<float> slope(channels);
    for (int64_t n = begin; n < end; ++n) {
      const Moments m = moments(x + n * size, size, epsilon);
      mean[n] = m.mean;
      inverse[n] = m.inverse;
      forward<relu>(size, channels, x + n * size, scale, offset, m, slope.data(), y + n * size);
    }
  }
};

template <typename T>
struct Backward {
  int64_t size, channels;
  const T* x;
  const float *scale, *offset, *mean, *inverse;
  const T* upstream;
  T* d_x;

  // d_scale and d_offset are of these examples alone.
  template <bool relu>
  void run(int64_t begin, int64_t end, float* d_scale, float* d_offset) const {
    std::vector<float> scratch(3 * channels);
    std::fill_n(d_scale, channels, 0.0f);
    std::fill_n(d_offset, channels, 0.0f);
    for (int64_t n = begin; n < end; ++n)
      backward<relu>(size, channels, x + n * size, scale, offset, {mean[n], inverse[n]}, upstream + n * size,
                     scratch.data(), d_x + n * size, d_scale, d_offset);
  }
};

// No templates: GCC clones none.
#define CPC_TF_RUN(T)                                                                                           \
  CPC_TF_CLONES void run(const Forward<T>& op, bool relu, int64_t begin, int64_t end) {                         \
    relu ? op.template run<true>(begin, end) : op.template run<false>(begin, end);                              \
  }                                                                                                             \
  CPC_TF_CLONES void run(const Backward<T>& op, bool relu, int64_t begin, int64_t end, float* s, float* o) {    \
    relu ? op.template run<true>(begin, end, s, o) : op.template run<false>(begin, end, s, o);                  \
  }
CPC_TF_RUN(float)
CPC_TF_RUN(uint16_t)

Status inputs_fit(OpKernelContext* context) {
  const TensorShape& x = context->input(0).shape();
  if (x.dims() != 3) return errors::InvalidArgument("x must be [N, M, C], got ", x.DebugString());
  if (x.dim_size(1) * x.dim_size(2) == 0)
    return errors::InvalidArgument("an example without numbers has no mean: x is ", x.DebugString());
  const TensorShape examples({x.dim_size(0)}), channels({x.dim_size(2)});
  const TensorShape* const wanted[] = {&x, &channels, &channels, &examples, &examples, &x};
  static const char* const kNames[] = {"x", "scale", "offset", "mean", "inverse", "upstream"};
  for (int i = 1; i < context->num_inputs(); ++i)
    if (context->input(i).shape() != *wanted[i])
      return errors::InvalidArgument(kNames[i], " must be ", wanted[i]->DebugString(), " for x of ", x.DebugString(),
                                     ", got ", context->input(i).shape().DebugString());
  return OkStatus();
}

// float for float, uint16_t for bfloat16.
template <typename T>
using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, T>;

template <typename T>
const Bits<T>* read(OpKernelContext* context, int input) {
  return reinterpret_cast<const Bits<T>*>(context->input(input).flat<T>().data());
}

template <typename T>
Bits<T>* write(Tensor* tensor) {
  return reinterpret_cast<Bits<T>*>(tensor->flat<T>().data());
}

template <typename T>
class NormRelu : public OpKernel {
 public:
  explicit NormRelu(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("relu", &relu_));
    OP_REQUIRES_OK(context, context->GetAttr("epsilon", &epsilon_));
    OP_REQUIRES(context, epsilon_ > 0, errors::InvalidArgument("epsilon must be positive, got ", epsilon_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, inputs_fit(context));
    const TensorShape& shape = context->input(0).shape();
    const int64_t count = shape.dim_size(0), size = shape.dim_size(1) * shape.dim_size(2);
    Tensor *y = nullptr, *mean = nullptr, *inverse = nullptr;
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output({0}, 0, shape, &y));
    OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({count}), &mean));
    OP_REQUIRES_OK(context, context->allocate_output(2, TensorShape({count}), &inverse));
    const Forward<Bits<T>> op{size, shape.dim_size(2), epsilon_, read<T>(context, 0), read<float>(context, 1),
                              read<float>(context, 2), write<T>(y), write<float>(mean), write<float>(inverse)};
    const auto& workers = *context->device()->tensorflow_cpu_worker_threads();
    Shard(workers.num_threads, workers.workers, count, size,
          [&](int64_t begin, int64_t end) { run(op, relu_, begin, end); });
  }

 private:
  bool relu_;
  float epsilon_;
};

template <typename T>
class NormReluGrad : public OpKernel {
 public:
  explicit NormReluGrad(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("relu", &relu_));
  }

  void Compute(OpKernelContext* context) override {
    OP_REQUIRES_OK(context, inputs_fit(context));
    const TensorShape& shape = context->input(0).shape();
    const int64_t count = shape.dim_size(0), channels = shape.dim_size(2), size = shape.dim_size(1) * channels;
    // Sums over examples: in blocks, which depend on the shape alone, then over the blocks in their order.
    const int64_t block = std::max<int64_t>((count + 63) / 64, 1), blocks = (count + block - 1) / block;
    Tensor *d_x = nullptr, *d_scale = nullptr, *d_offset = nullptr, sums;
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output({5, 0}, 0, shape, &d_x));
    OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({channels}), &d_scale));
    OP_REQUIRES_OK(context, context->allocate_output(2, TensorShape({channels}), &d_offset));
    OP_REQUIRES_OK(context, context->allocate_temp(DT_FLOAT, TensorShape({blocks, 2, channels}), &sums));
    const Backward<Bits<T>> op{size, channels, read<T>(context, 0), read<float>(context, 1), read<float>(context, 2),
                               read<float>(context, 3), read<float>(context, 4), read<T>(context, 5), write<T>(d_x)};
    float* const sum = write<float>(&sums);
    const auto work = [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        float* const own = sum + 2 * b * channels;
        run(op, relu_, b * block, std::min(count, (b + 1) * block), own, own + channels);
      }
    };
    const auto& workers = *context->device()->tensorflow_cpu_worker_threads();
    Shard(workers.num_threads, workers.workers, blocks, 2 * block * size, work);
    add(sum, blocks, channels, write<float>(d_scale));
    add(sum + channels, blocks, channels, write<float>(d_offset));
  }

 private:
  // Row 0, 2, 4, ... of `rows`.
  static void add(const float* rows, int64_t blocks, int64_t channels, float* to) {
    std::fill_n(to, channels, 0.0f);
    for (int64_t b = 0; b < blocks; ++b)
      for (int64_t c = 0; c < channels; ++c) to[c] += rows[2 * b * channels + c];
  }

  bool relu_;
};

// Inputs of rank 3, 1, 1 and of as many channels. x -> its merger with the others.
Status merged(InferenceContext* context, ShapeHandle* x, ShapeHandle* channels) {
  TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 3, x));
  *channels = context->Vector(context->Dim(*x, 2));
  for (int i : {1, 2}) TF_RETURN_IF_ERROR(context->Merge(*channels, context->input(i), channels));
  return OkStatus();
}

REGISTER_OP("CpcNormRelu")
    .Input("x: T")
    .Input("scale: float")
    .Input("offset: float")
    .Output("y: T")
    .Output("mean: float")
    .Output("inverse: float")
    .Attr("T: {bfloat16, float}")
    .Attr("relu: bool")
    .Attr("epsilon: float")
    .SetShapeFn([](InferenceContext* context) {
      ShapeHandle x, channels;
      TF_RETURN_IF_ERROR(merged(context, &x, &channels));
      context->set_output(0, x);
      for (int i : {1, 2}) context->set_output(i, context->Vector(context->Dim(x, 0)));
      return OkStatus();
    })
    .Doc("Layer norm of examples x [N, M, C] over M and C, then maybe ReLU; also mean and 1 / standard deviation.");

REGISTER_OP("CpcNormReluGrad")
    .Input("x: T")
    .Input("scale: float")
    .Input("offset: float")
    .Input("mean: float")
    .Input("inverse: float")
    .Input("upstream: T")
    .Output("d_x: T")
    .Output("d_scale: float")
    .Output("d_offset: float")
    .Attr("T: {bfloat16, float}")
    .Attr("relu: bool")
    .SetShapeFn([](InferenceContext* context) {
      ShapeHandle x, channels, ignored;
      TF_RETURN_IF_ERROR(merged(context, &x, &channels));
      for (int i : {3, 4})
        TF_RETURN_IF_ERROR(context->Merge(context->Vector(context->Dim(x, 0)), context->input(i), &ignored));
      TF_RETURN_IF_ERROR(context->Merge(x, context->input(5), &x));
      context->set_output(0, x);
      for (int i : {1, 2}) context->set_output(i, channels);
      return OkStatus();
    })
    .Doc("The gradient of CpcNormRelu with respect to its three inputs.");

#define REGISTER(T)                                                                                   \
  REGISTER_KERNEL_BUILDER(Name("CpcNormRelu").Device(DEVICE_CPU).TypeConstraint<T>("T"), NormRelu<T>); \
  REGISTER_KERNEL_BUILDER(Name("CpcNormReluGrad").Device(DEVICE_CPU).TypeConstraint<T>("T"), NormReluGrad<T>);
REGISTER(float)
REGISTER(bfloat16)

}  // namespace
}  // namespace cpc_tf
