// Memory for one nghttp2 session: small blocks are kept and handed out again.
#pragma once

#include <stddef.h>

/// A session makes and drops half a dozen small blocks for each stream. glibc's allocator takes them apart and puts
/// them together again each time; here each size has a list, and the session, which is confined to one thread, is the
/// only one to use it.
typedef struct apus_pool apus_pool;

/// NULL: out of memory.
apus_pool *apus_pool_new(void);

/// After everything that came from it was given back.
void apus_pool_free(apus_pool *pool);

// The four functions of an `nghttp2_mem`, with the pool as their last argument.
void *apus_pool_malloc(size_t size, void *pool);
void apus_pool_release(void *block, void *pool);
void *apus_pool_calloc(size_t count, size_t size, void *pool);
void *apus_pool_realloc(void *block, size_t size, void *pool);
