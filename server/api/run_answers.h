#pragma once

#include <cstdint>

#include "server/api/run_texts.h"
#include "server/http/message.h"
#include "server/store/runs.h"
#include "server/verdict/health.h"

namespace babelring::api {

/// `revision` is the store's revision from before the run was read.
RunText run_text(const store::RunRow& run, const verdict::Health& health, std::uint64_t revision, std::int64_t now_ms);

/// The response to a GET of that run now: 200 or 304.
http::Response run_answer(const http::Request& request, const RunText& text, std::int64_t now_ms);

}  // namespace babelring::api
