extern "C" {

/// Read by jemalloc, with which the server is linked, before main(). A thread of its own gives freed memory back to the
/// system within seconds, also where nothing is allocated any more. Two arenas: what many threads free lies close
/// together. docs/performance.md compares this with other allocators.
extern const char* const malloc_conf;
const char* const malloc_conf =
    "background_thread:true,max_background_threads:1,narenas:2,lg_tcache_max:12,dirty_decay_ms:2000,muzzy_decay_ms:0";
}
