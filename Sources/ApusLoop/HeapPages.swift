internal import CUV

/// The pages of the heap.
package enum HeapPages {
  /// Gives those that are free back to the system. The allocator does so by itself at the end of its heap alone; what a
  /// crowd took and gave back would stay the process's for good.
  ///
  /// Other threads wait for it when they allocate: about 0.2 ms for each megabyte that is returned.
  package static func returnFree() { malloc_trim(0) }
}
