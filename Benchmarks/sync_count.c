// For LD_PRELOAD: counts the syncs of RocksDB's log. The file that APUS_SYNC_COUNT names, 4,096 bytes, gets two 64-bit
// numbers: calls of fdatasync for files named *.log, and their duration in nanoseconds.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t *counts;
static int (*real)(int);

__attribute__((constructor)) static void start(void) {
  real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  const char *path = getenv("APUS_SYNC_COUNT");
  int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory != MAP_FAILED) counts = memory;
}

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

// Other threads also sync tables and the manifest.
static int is_log(int file) {
  char link[32], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path);
  return length > 4 && memcmp(path + length - 4, ".log", 4) == 0;
}

int fdatasync(int file) {
  uint64_t begin = now();
  int code = real(file);
  if (counts && is_log(file)) {
    atomic_fetch_add(&counts[0], 1);
    atomic_fetch_add(&counts[1], now() - begin);
  }
  return code;
}
