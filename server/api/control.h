#pragma once

#include <string>

#include "base/json.h"
#include "server/api/body.h"
#include "server/api/service.h"
#include "server/launch/control_plane.h"
#include "server/store/control.h"
#include "server/store/runs.h"

namespace babelring::api {

inline constexpr double fresh_s = 10;  // a rank is alive and receives commands if its heartbeat is younger

/// The control plane, which starts and supervises runs. Throws Problem 503 if this process has none.
launch::ControlPlane& control_of(Service& service);

/// A rank's GPU from its newest heartbeat; null without one.
json::value gpu_item(const std::optional<launch::BeatGpu>& gpu);

/// Publishes the run's current state to the event streams.
void publish_run(Service& service, const std::string& run);

/// The state part of a run's ETag. `item` is the run with its configuration. The tag covers the members that PATCH and
/// DELETE change, not the progress of training.
std::string run_state_digest(json::object item);
/// Checks If-Match of a PATCH or DELETE. Throws Problem 412 if the tag is of another state of the run.
void require_run_match(const http::Request& request, const store::RunRow& run);

/// Call after a change of the run's state: publishes it to the event streams, and removes the tokens of an ended run.
void publish_change(Service& service, const std::string& run);

/// A response with the run's current state.
http::Response run_response(Service& service, const std::string& run, int status = 200);

/// The member `labels`, an object of up to 64 short strings, as JSON text. Throws Problem 400.
std::optional<std::string> read_labels(Body& body);

}  // namespace babelring::api
