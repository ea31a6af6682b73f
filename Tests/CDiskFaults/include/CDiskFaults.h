#ifndef CDISKFAULTS_H
#define CDISKFAULTS_H

/// Groups of calls that a fault can affect, as bits.
enum disk_fault_calls {
  /// write, pwrite, ftruncate, fallocate, posix_fallocate.
  DISK_FAULT_WRITE = 1,
  /// fsync, fdatasync, sync_file_range of a file.
  DISK_FAULT_SYNC = 2,
  /// Changes of names: open for writing, mkdir, rename, unlink, link, and access with W_OK.
  DISK_FAULT_CHANGE = 4,
  /// open, fopen and opendir for any purpose.
  DISK_FAULT_OPEN = 8,
  /// pread.
  DISK_FAULT_READ = 16,
  /// fsync of a folder, which makes its names durable.
  DISK_FAULT_SYNC_FOLDER = 32,
};

/// Makes `calls` for anything below `folder` fail with `error`, an errno, in all threads of this process, after
/// `passes` of them. Returns a number for `disk_fault_end`, or -1 if too many faults are active.
int disk_fault_begin(const char *folder, unsigned calls, int error, unsigned long passes);

/// Ends the fault. Returns the number of failed calls.
unsigned long disk_fault_end(int number);

#endif
