#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/csv.h"
#include "insight/predict/rank_record.h"

namespace babelring::insight {

/// Times of one model on one GPU by batch size, from a table with the columns gpu, model, batch, transfer_ms and
/// compute_ms.
struct GpuProfile {
  std::string gpu, model;
  Curve compute_ms, transfer_ms;  // of a batch
};

/// The GPUs and models of a table, in order of appearance. Rows without a compute time (empty or `N/A`) are left out
/// and counted in `skipped`. Throws UsageFailure.
std::vector<GpuProfile> gpu_profiles(const CsvTable& table, std::size_t* skipped = nullptr);

/// The profile of a GPU and model. Throws UsageFailure that names the existing profiles if there is none.
const GpuProfile& find_profile(const std::vector<GpuProfile>& profiles, std::string_view gpu, std::string_view model);

/// The number of parameters of a published image model; 0 if unknown. Source: torchvision's model pages.
std::int64_t image_model_parameters(std::string_view model);

/// A rank's record of updates of `batch` images; 0: the largest batch of the table. The table does not split compute:
/// forward gets a third of it and backward two thirds, as their FLOPs. The gradient of `parameters` (0: none) is
/// complete evenly over backward, in buckets of `bucket_mb`. The compute error is the mean of leaving one batch size
/// out, if there are at least three.
RankRecord record_of(const GpuProfile& profile, double batch, std::int64_t parameters, double bucket_mb);

/// The time of one process that scatters each batch over two GPUs, replicates the model and gathers the outputs:
/// t(B/2) + scatter(B) + fixed + per image · B, where t is the time on one GPU.
struct TwoGpuPoint {
  double batch = 0, measured_ms = 0, half_ms = 0;  // half_ms: t(B/2)
  std::optional<double> scatter_ms;                // measured
  double predicted_ms = 0;                         // by the fit to all other points
  double by_halving_ms = 0;                        // t(B) / 2, the rule of thumb
};
struct TwoGpuFit {
  std::string gpu, model;
  double scatter_fixed_ms = 0, scatter_ms_per_image = 0;  // scatter of the batch
  double fixed_ms = 0;                                    // replicating the model and reducing its gradients
  double ms_per_image = 0;                                // gathering outputs
  std::vector<TwoGpuPoint> points;
  ErrorSummary error;    // of predicted_ms
  ErrorSummary halving;  // of by_halving_ms
};

/// The fits of all models with at least three batch sizes on two GPUs, from a table with the columns model, gpu, gpus,
/// total_batch, step_compute_ms and scatter_ms. `left_out` gets a line for each other model, if given. Throws
/// UsageFailure if there is no fit.
std::vector<TwoGpuFit> two_gpu_fits(const CsvTable& table, std::vector<std::string>* left_out = nullptr);

}  // namespace babelring::insight
