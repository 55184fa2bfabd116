#pragma once

// The definitions of all ops.
#include "nmt/ops/adam.h"
#include "nmt/ops/attention.h"
#include "nmt/ops/cross_entropy.h"
#include "nmt/ops/elementwise.h"
#include "nmt/ops/embedding.h"
#include "nmt/ops/layer_norm.h"
#include "nmt/ops/linear.h"
#include "nmt/ops/op_list.h"
