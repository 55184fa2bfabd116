#pragma once

#include "nmt/ops/attention.h"
#include "nmt/ops/cpu/workspace.h"

/// The two ways to run attention; run(op, workspace) takes the second where it can. Results of both are the same within
/// the rounding of bf16.
namespace babelring::cpu {

/// Products in f32, in vector registers: any processor, both types.
void run_vectors(const AttentionForward& op, Workspace& workspace);
void run_vectors(const AttentionBackward& op, Workspace& workspace);

/// Products of bf16 in matrix tiles; needs bf16 operands and amx_available(). Scores and sums are f32; probabilities
/// and gradients of scores are rounded to bf16 before they are multiplied.
void run_tiles(const AttentionForward& op, Workspace& workspace);
void run_tiles(const AttentionBackward& op, Workspace& workspace);

}  // namespace babelring::cpu
