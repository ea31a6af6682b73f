#include "apus_pool.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { unit = 64, class_count = 17 };

// The header of each block: 16 bytes, so that blocks are aligned like malloc's.
union header {
  struct {
    // In units; 0 for a large block, which is allocated and freed with malloc.
    size_t class;
    size_t size;
  };
  max_align_t alignment;
};

struct free_block {
  struct free_block *next;
};

struct apus_pool {
  struct free_block *lists[class_count];
};

apus_pool *apus_pool_new(void) { return calloc(1, sizeof(apus_pool)); }

void apus_pool_free(apus_pool *pool) {
  for (size_t class = 0; class < class_count; class++) {
    while (pool->lists[class]) {
      struct free_block *block = pool->lists[class];
      pool->lists[class] = block->next;
      free((union header *)block - 1);
    }
  }
  free(pool);
}

void *apus_pool_malloc(size_t size, void *argument) {
  apus_pool *pool = argument;
  size_t class = size == 0 ? 1 : (size + unit - 1) / unit;
  if (class < class_count && pool->lists[class]) {
    struct free_block *block = pool->lists[class];
    pool->lists[class] = block->next;
    ((union header *)block - 1)->size = size;
    return block;
  }
  if (size > SIZE_MAX - sizeof(union header) - unit) return NULL;
  size_t room = class < class_count ? class * unit : size;
  union header *header = malloc(sizeof *header + room);
  if (!header) return NULL;
  header->class = class < class_count ? class : 0;
  header->size = size;
  return header + 1;
}

void apus_pool_release(void *block, void *argument) {
  if (!block) return;
  apus_pool *pool = argument;
  union header *header = (union header *)block - 1;
  if (header->class == 0) return free(header);
  struct free_block *freed = block;
  freed->next = pool->lists[header->class];
  pool->lists[header->class] = freed;
}

void *apus_pool_calloc(size_t count, size_t size, void *argument) {
  if (size && count > SIZE_MAX / size) return NULL;
  void *block = apus_pool_malloc(count * size, argument);
  if (block) memset(block, 0, count * size);
  return block;
}

void *apus_pool_realloc(void *block, size_t size, void *argument) {
  if (!block) return apus_pool_malloc(size, argument);
  union header *header = (union header *)block - 1;
  if (header->class && size <= header->class * unit) {
    header->size = size;
    return block;
  }
  void *grown = apus_pool_malloc(size, argument);
  if (!grown) return NULL;
  memcpy(grown, block, header->size < size ? header->size : size);
  apus_pool_release(block, argument);
  return grown;
}
