#ifndef CDISKFAULTS_H
#define CDISKFAULTS_H

/// Calls that a fault can make fail, as bits.
enum disk_fault_calls {
  /// write, pwrite, ftruncate, fallocate, posix_fallocate.
  DISK_FAULT_WRITE = 1,
  /// fsync, fdatasync, sync_file_range.
  DISK_FAULT_SYNC = 2,
  /// Names: open for writing, mkdir, rename, unlink, link, and access that asks whether writing is allowed.
  DISK_FAULT_CHANGE = 4,
  /// open, fopen and opendir for any purpose.
  DISK_FAULT_OPEN = 8,
  /// pread.
  DISK_FAULT_READ = 16,
};

/// From now on `calls` about anything below `folder` fail with `error`, an errno, in all threads of this process.
/// Returns a number for `disk_fault_end`, or -1 where too many faults are under way.
int disk_fault_begin(const char *folder, unsigned calls, int error);

/// The calls work again. Returns how many have failed.
unsigned long disk_fault_end(int number);

#endif
