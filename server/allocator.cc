extern "C" {

/// jemalloc's configuration, read before main(). A background thread returns freed memory to the system within seconds,
/// even while the server is idle. Two arenas keep fragmentation low. Each thread caches at most 20 blocks of a size, up
/// to 512 bytes, which keeps the idle server small. docs/measurements/2026-11-22-server.md compares other allocators.
extern const char* const malloc_conf;
const char* const malloc_conf =
    "background_thread:true,max_background_threads:1,narenas:2,lg_tcache_max:9,tcache_nslots_small_max:20,"
    "dirty_decay_ms:2000,muzzy_decay_ms:0";
}
