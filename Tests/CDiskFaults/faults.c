// Replaces the system's file calls, and makes some of them fail. A program's own function takes precedence over the C
// library's function of that name, even for shared libraries that it loads, such as the store's engine. Disk faults
// therefore need no privileges, no device and no other process.

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "CDiskFaults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct fault {
  char folder[PATH_MAX];
  unsigned calls;
  int error;
  /// Calls that still succeed.
  unsigned long passes;
  unsigned long count;
};

enum { MOST_FAULTS = 32 };

static struct fault faults[MOST_FAULTS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
/// Keeps calls cheap while no fault is active.
static atomic_int active;

int disk_fault_begin(const char *folder, unsigned calls, int error, unsigned long passes) {
  char resolved[PATH_MAX];
  if (realpath(folder, resolved) == NULL) return -1;
  pthread_mutex_lock(&mutex);
  int number = 0;
  while (number < MOST_FAULTS && faults[number].calls != 0) number++;
  if (number < MOST_FAULTS) {
    struct fault *fault = &faults[number];
    strcpy(fault->folder, resolved);
    fault->calls = calls;
    fault->error = error;
    fault->passes = passes;
    fault->count = 0;
    atomic_fetch_add(&active, 1);
  }
  pthread_mutex_unlock(&mutex);
  return number < MOST_FAULTS ? number : -1;
}

unsigned long disk_fault_end(int number) {
  pthread_mutex_lock(&mutex);
  const unsigned long count = faults[number].count;
  faults[number].calls = 0;
  atomic_fetch_sub(&active, 1);
  pthread_mutex_unlock(&mutex);
  return count;
}

static int is_below(const char *path, const char *folder) {
  const size_t length = strlen(folder);
  return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/// The error for one of `calls` on `path`; 0 for none.
static int failure_of_path(unsigned calls, const char *path) {
  if (atomic_load(&active) == 0) return 0;
  int error = 0;
  pthread_mutex_lock(&mutex);
  for (int number = 0; number < MOST_FAULTS && error == 0; number++) {
    struct fault *fault = &faults[number];
    if ((fault->calls & calls) != 0 && is_below(path, fault->folder)) {
      if (fault->passes > 0) {
        fault->passes--;
        continue;
      }
      error = fault->error;
      fault->count++;
    }
  }
  pthread_mutex_unlock(&mutex);
  return error;
}

static int failure_of_file(unsigned calls, int file) {
  if (atomic_load(&active) == 0) return 0;
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return failure_of_path(calls, path);
}

/// The error for an fsync of a file or folder; 0 for none.
static int failure_of_sync(int file) {
  if (atomic_load(&active) == 0) return 0;
  struct stat status;
  const int is_folder = fstat(file, &status) == 0 && S_ISDIR(status.st_mode);
  return failure_of_file(is_folder ? DISK_FAULT_SYNC_FOLDER : DISK_FAULT_SYNC, file);
}

/// Declares `real`: the C library's function that this one replaces.
#define REAL(name)                                        \
  static __typeof__(&name) real;                          \
  if (real == NULL) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define FAIL_WITH(failure, result) \
  const int error = (failure);     \
  if (error != 0) {                \
    errno = error;                 \
    return (result);               \
  }

ssize_t write(int file, const void *bytes, size_t count) {
  REAL(write);
  FAIL_WITH(failure_of_file(DISK_FAULT_WRITE, file), -1);
  return real(file, bytes, count);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
  REAL(pwrite);
  FAIL_WITH(failure_of_file(DISK_FAULT_WRITE, file), -1);
  return real(file, bytes, count, offset);
}

int ftruncate(int file, off_t length) {
  REAL(ftruncate);
  FAIL_WITH(failure_of_file(DISK_FAULT_WRITE, file), -1);
  return real(file, length);
}

int fallocate(int file, int mode, off_t offset, off_t length) {
  REAL(fallocate);
  FAIL_WITH(failure_of_file(DISK_FAULT_WRITE, file), -1);
  return real(file, mode, offset, length);
}

int posix_fallocate(int file, off_t offset, off_t length) {
  REAL(posix_fallocate);
  const int error = failure_of_file(DISK_FAULT_WRITE, file);
  return error != 0 ? error : real(file, offset, length);
}

int fsync(int file) {
  REAL(fsync);
  FAIL_WITH(failure_of_sync(file), -1);
  return real(file);
}

int fdatasync(int file) {
  REAL(fdatasync);
  FAIL_WITH(failure_of_file(DISK_FAULT_SYNC, file), -1);
  return real(file);
}

int sync_file_range(int file, off_t offset, off_t count, unsigned flags) {
  REAL(sync_file_range);
  // Without flags it does nothing and cannot fail: the engine uses this to check that the call exists.
  FAIL_WITH(flags != 0 ? failure_of_file(DISK_FAULT_SYNC, file) : 0, -1);
  return real(file, offset, count, flags);
}

ssize_t pread(int file, void *bytes, size_t count, off_t offset) {
  REAL(pread);
  FAIL_WITH(failure_of_file(DISK_FAULT_READ, file), -1);
  return real(file, bytes, count, offset);
}

int open(const char *path, int flags, ...) {
  REAL(open);
  mode_t mode = 0;
  if ((flags & (O_CREAT | __O_TMPFILE)) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  const int changes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
  FAIL_WITH(failure_of_path(DISK_FAULT_OPEN | (changes ? DISK_FAULT_CHANGE : 0), path), -1);
  return real(path, flags, mode);
}

FILE *fopen(const char *path, const char *mode) {
  REAL(fopen);
  const int changes = strpbrk(mode, "wa+") != NULL;
  FAIL_WITH(failure_of_path(DISK_FAULT_OPEN | (changes ? DISK_FAULT_CHANGE : 0), path), NULL);
  return real(path, mode);
}

DIR *opendir(const char *path) {
  REAL(opendir);
  FAIL_WITH(failure_of_path(DISK_FAULT_OPEN, path), NULL);
  return real(path);
}

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  // The system first checks whether the name exists.
  struct stat status;
  FAIL_WITH(stat(path, &status) != 0 ? failure_of_path(DISK_FAULT_CHANGE, path) : 0, -1);
  return real(path, mode);
}

int rename(const char *from, const char *to) {
  REAL(rename);
  FAIL_WITH(failure_of_path(DISK_FAULT_CHANGE, from), -1);
  return real(from, to);
}

int unlink(const char *path) {
  REAL(unlink);
  FAIL_WITH(failure_of_path(DISK_FAULT_CHANGE, path), -1);
  return real(path);
}

int link(const char *from, const char *to) {
  REAL(link);
  FAIL_WITH(failure_of_path(DISK_FAULT_CHANGE, to), -1);
  return real(from, to);
}

int access(const char *path, int mode) {
  REAL(access);
  FAIL_WITH((mode & W_OK) != 0 ? failure_of_path(DISK_FAULT_CHANGE, path) : 0, -1);
  return real(path, mode);
}
