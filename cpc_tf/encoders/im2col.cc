// The op CpcIm2col: what a convolution's kernel sees at each place, as the rows of a matrix. The rows of an image are
// written by one thread; images are shared out over the threads that TensorFlow has for the inside of an op.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/kernel_shape_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/util/padding.h"
#include "tensorflow/core/util/work_sharder.h"

namespace cpc_tf {
namespace {

using namespace tensorflow;  // NOLINT: the field's habit in op files
using shape_inference::DimensionHandle;
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

REGISTER_OP("CpcIm2col")
    .Input("x: T")
    .Output("rows: T")
    .Attr("T: {bfloat16, float}")
    .Attr("kernel: list(int) >= 2")
    .Attr("stride: int >= 1")
    .Attr("padding: {'SAME', 'VALID'}")
    .SetShapeFn([](InferenceContext* context) {
      ShapeHandle x;
      TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 4, &x));
      std::vector<int64_t> kernel;
      int64_t stride;
      Padding padding;
      TF_RETURN_IF_ERROR(context->GetAttr("kernel", &kernel));
      TF_RETURN_IF_ERROR(context->GetAttr("stride", &stride));
      TF_RETURN_IF_ERROR(context->GetAttr("padding", &padding));
      DimensionHandle rows = context->Dim(x, 0), width = context->Dim(x, 3);
      for (int side : {0, 1}) {
        DimensionHandle places;
        TF_RETURN_IF_ERROR(GetWindowedOutputSizeFromDims(context, context->Dim(x, 1 + side), kernel[side], stride,
                                                         padding, &places));
        TF_RETURN_IF_ERROR(context->Multiply(rows, places, &rows));
        TF_RETURN_IF_ERROR(context->Multiply(width, kernel[side], &width));
      }
      context->set_output(0, context->Matrix(rows, width));
      return OkStatus();
    })
    .Doc("Images x [N, H, W, C] as rows [N * h * w, kernel[0] * kernel[1] * C] for places [h, w] of a convolution.");

// Along one side of an image: how many numbers are read, places, and zeros before the first.
struct Side {
  int64_t size, kernel, places = 0, before = 0;
};

template <typename T>
class Im2col : public OpKernel {
 public:
  explicit Im2col(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("kernel", &kernel_));
    OP_REQUIRES_OK(context, context->GetAttr("stride", &stride_));
    OP_REQUIRES_OK(context, context->GetAttr("padding", &padding_));
    OP_REQUIRES(context,
                kernel_.size() == 2 && std::min(kernel_[0], kernel_[1]) >= 1 &&
                    std::max(kernel_[0], kernel_[1]) <= 1024,  // Products of sizes stay below 2^63.
                errors::InvalidArgument("kernel must be two numbers from 1 to 1024"));
  }

  void Compute(OpKernelContext* context) override {
    const Tensor& x = context->input(0);
    OP_REQUIRES(context, x.dims() == 4, errors::InvalidArgument("x must be [N, H, W, C], got ",
                                                                x.shape().DebugString()));
    const int64_t count = x.dim_size(0), channels = x.dim_size(3);
    Side vertical{x.dim_size(1), kernel_[0]}, horizontal{x.dim_size(2), kernel_[1]};
    for (Side* side : {&vertical, &horizontal}) {
      int64_t after = 0;
      OP_REQUIRES_OK(context, GetWindowedOutputSizeVerbose(side->size, side->kernel, 1, stride_, padding_,
                                                           &side->places, &side->before, &after));
    }
    const int64_t places = vertical.places * horizontal.places, width = kernel_[0] * kernel_[1] * channels;
    Tensor* rows = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({count * places, width}), &rows));
    const T* const from = x.flat<T>().data();
    T* const to = rows->flat<T>().data();
    const int64_t image = vertical.size * horizontal.size * channels;
    const auto work = [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n)
        unroll(from + n * image, vertical, horizontal, channels, to + n * places * width);
    };
    const auto& workers = *context->device()->tensorflow_cpu_worker_threads();
    Shard(workers.num_threads, workers.workers, count, places * width, work);
  }

 private:
  // One image [H, W, C]. A row of the kernel is one run of numbers in memory, perhaps with zeros at its ends.
  void unroll(const T* from, const Side& vertical, const Side& horizontal, int64_t channels, T* to) const {
    for (int64_t i = 0; i < vertical.places; ++i) {
      for (int64_t j = 0; j < horizontal.places; ++j) {
        const int64_t left = j * stride_ - horizontal.before, right = left + horizontal.kernel;
        const int64_t first = std::max<int64_t>(left, 0), last = std::min(right, horizontal.size);
        for (int64_t k = 0; k < vertical.kernel; ++k) {
          const int64_t y = i * stride_ - vertical.before + k;
          T* const end = to + horizontal.kernel * channels;
          if (y >= 0 && y < vertical.size && first < last) {
            to = std::fill_n(to, (first - left) * channels, T(0));
            to = std::copy_n(from + (y * horizontal.size + first) * channels, (last - first) * channels, to);
          }
          to = std::fill_n(to, end - to, T(0));
        }
      }
    }
  }

  std::vector<int64_t> kernel_;
  int64_t stride_;
  Padding padding_;
};

#define REGISTER(T) REGISTER_KERNEL_BUILDER(Name("CpcIm2col").Device(DEVICE_CPU).TypeConstraint<T>("T"), Im2col<T>);
REGISTER(float)
REGISTER(bfloat16)

}  // namespace
}  // namespace cpc_tf
