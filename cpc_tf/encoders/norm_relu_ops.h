// What the ops CpcNormRelu and CpcNormReluGrad take and give.

#pragma once

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace cpc_tf {
namespace {

using namespace tensorflow;  // NOLINT: the field's habit in op files
using shape_inference::InferenceContext;
using shape_inference::ShapeHandle;

// The shapes of x and, merged, of scale and offset.
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

}  // namespace
}  // namespace cpc_tf
