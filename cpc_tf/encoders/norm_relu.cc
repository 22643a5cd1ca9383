// The kernels of CpcNormRelu and CpcNormReluGrad: they check their inputs, then share the examples out over the threads
// that TensorFlow has for the inside of an op. The number of threads changes no bit.

#include <algorithm>
#include <type_traits>
#include <vector>

#include "norm_relu_ops.h"
#include "norm_relu_range.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/util/work_sharder.h"

namespace cpc_tf {
namespace {

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

// The processor's vectors want rows of 64 numbers: [M, C] is [M / times, times * C] with scale and offset repeated.
int64_t times_repeated(const TensorShape& x) {
  int64_t times = 1;
  while (times * x.dim_size(2) < 64 && x.dim_size(1) % (2 * times) == 0) times *= 2;
  return times;
}

std::vector<float> repeated(const Tensor& tensor, int64_t times) {
  const auto from = tensor.flat<float>();
  std::vector<float> to(times * from.size());
  for (int64_t i = 0; i < times; ++i) std::copy_n(from.data(), from.size(), to.data() + i * from.size());
  return to;
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
    const int64_t times = times_repeated(shape);
    const std::vector<float> scale = repeated(context->input(1), times), offset = repeated(context->input(2), times);
    const Forward<Bits<T>> op{size, times * shape.dim_size(2), epsilon_, read<T>(context, 0), scale.data(),
                              offset.data(), write<T>(y), write<float>(mean), write<float>(inverse)};
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
    const int64_t times = times_repeated(shape), row = times * channels;
    const std::vector<float> scale = repeated(context->input(1), times), offset = repeated(context->input(2), times);
    OP_REQUIRES_OK(context, context->allocate_temp(DT_FLOAT, TensorShape({blocks, 2, times, channels}), &sums));
    const Backward<Bits<T>> op{size, row, read<T>(context, 0), scale.data(), offset.data(), read<float>(context, 3),
                               read<float>(context, 4), read<T>(context, 5), write<T>(d_x)};
    float* const sum = write<float>(&sums);
    const auto work = [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        float* const own = sum + 2 * b * row;
        run(op, relu_, b * block, std::min(count, (b + 1) * block), own, own + row);
      }
    };
    const auto& workers = *context->device()->tensorflow_cpu_worker_threads();
    Shard(workers.num_threads, workers.workers, blocks, 2 * block * size, work);
    fold(sum, blocks, times, channels, write<float>(d_scale));
    fold(sum + row, blocks, times, channels, write<float>(d_offset));
  }

 private:
  // The sum of every other part, [times, C], of [blocks, 2, times, C].
  static void fold(const float* parts, int64_t blocks, int64_t times, int64_t channels, float* to) {
    std::fill_n(to, channels, 0.0f);
    for (int64_t b = 0; b < blocks; ++b)
      for (int64_t i = 0; i < times; ++i)
        for (int64_t c = 0; c < channels; ++c) to[c] += parts[(2 * b * times + i) * channels + c];
  }

  bool relu_;
};

#define REGISTER(T)                                                                                   \
  REGISTER_KERNEL_BUILDER(Name("CpcNormRelu").Device(DEVICE_CPU).TypeConstraint<T>("T"), NormRelu<T>); \
  REGISTER_KERNEL_BUILDER(Name("CpcNormReluGrad").Device(DEVICE_CPU).TypeConstraint<T>("T"), NormReluGrad<T>);
REGISTER(float)
REGISTER(bfloat16)

}  // namespace
}  // namespace cpc_tf
