#pragma once

#include <string>

#include "base/json.h"
#include "server/api/body.h"
#include "server/api/service.h"
#include "server/launch/control_plane.h"
#include "server/store/control.h"
#include "server/store/queries.h"

namespace babelring::api {

inline constexpr double fresh_s = 10;  // a heartbeat this young: its rank is there, and orders will arrive

/// What starts and watches runs. Throws Problem 503 in a process that has none.
launch::ControlPlane& control_of(Service& service);

/// A rank's GPU as its newest heartbeat tells it; null without one.
json::value gpu_item(const std::optional<launch::BeatGpu>& gpu);

/// Tells the event streams how a run stands now.
void announce_run(Service& service, const std::string& run);

/// What a run's entity tag begins with. `item` is the run with its configuration; the tag covers what PATCH and DELETE
/// change, not the progress of training.
std::string run_state(json::object item);
/// If-Match of a PATCH or DELETE. Throws Problem 412 where the client has not seen this state of the run.
void require_run_match(const http::Request& request, const store::RunRow& run);

/// After a change of state: tells the event streams, and ends the tokens of a run that is over.
void note_change(Service& service, const std::string& run);

/// 200 (or `status`) with the run as it stands now.
http::Response run_response(Service& service, const std::string& run, int status = 200);

/// The member `labels`: an object of at most 64 short strings, as JSON text. Throws Problem 400.
std::optional<std::string> read_labels(Body& body);

}  // namespace babelring::api
