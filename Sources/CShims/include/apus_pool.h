// Memory for one nghttp2 session: small blocks are kept for reuse.
#pragma once

#include <stddef.h>

/// A session allocates and frees half a dozen small blocks for each stream, which glibc's allocator splits and merges
/// each time. Here each size has a free list, used only by the session, which is confined to one thread.
typedef struct apus_pool apus_pool;

/// NULL: out of memory.
apus_pool *apus_pool_new(void);

/// Call it after everything allocated from the pool was freed.
void apus_pool_free(apus_pool *pool);

// The four functions of an `nghttp2_mem`, with the pool as their last argument.
void *apus_pool_malloc(size_t size, void *pool);
void apus_pool_release(void *block, void *pool);
void *apus_pool_calloc(size_t count, size_t size, void *pool);
void *apus_pool_realloc(void *block, size_t size, void *pool);
