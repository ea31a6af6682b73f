/* Counts a process's heap allocations, for Benchmarks/ingest.py: preloaded into a server, it adds to two 64-bit numbers
 * (calls, requested bytes) at the start of the file that APUS_ALLOC_COUNT names. The file is mapped, so that the
 * benchmark can read it at any time without contacting the server.
 *
 * Memory comes from glibc's own entry points, because looking up the next `malloc` with dlsym would allocate. So it
 * does not work with a program linked with another allocator, whose `free` would get glibc's memory. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

struct counts {
  _Atomic unsigned long calls, bytes;
};

/* Counts allocations before the file is mapped. Never read, because they belong to no request. */
static struct counts early;
static struct counts *counts = &early;

__attribute__((constructor)) static void map_counts(void) {
  const char *path = getenv("APUS_ALLOC_COUNT");
  int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  void *page = file < 0 ? MAP_FAILED
                        : mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) {
    fputs("alloc_count: APUS_ALLOC_COUNT must name a writable file of 16 bytes or more\n", stderr);
    _exit(1);
  }
  close(file);
  counts = page;
}

static void count(size_t size) {
  atomic_fetch_add_explicit(&counts->calls, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&counts->bytes, size, memory_order_relaxed);
}

void *malloc(size_t size) {
  count(size);
  return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
  count(number * size);
  return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size) {
  count(size);
  return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size) {
  count(size);
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  count(size);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
  count(size);
  void *fresh = __libc_memalign(alignment, size);
  if (fresh == NULL) return ENOMEM;
  *memory = fresh;
  return 0;
}
