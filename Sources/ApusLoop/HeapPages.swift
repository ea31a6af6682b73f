internal import CUV
import Glibc

/// The pages of the heap.
package enum HeapPages {
  /// Gives those that are free back to the system. The allocator does so by itself at the end of its heap alone; what a
  /// crowd took and gave back would stay the process's for good.
  ///
  /// Other threads wait for it when they allocate: about 0.2 ms for each megabyte that is returned.
  package static func returnFree() {
    emptyThreadCache()
    malloc_trim(0)
  }

  /// Bytes of the smallest piece of each size that the allocator keeps, and what the sizes differ by.
  private static let (smallestPiece, pieceStep) = (24, 16)
  /// Of glibc 2.26 to 2.41: `TCACHE_MAX_BINS` and `TCACHE_FILL_COUNT`. With other numbers some pieces stay.
  private static let (pieceSizes, piecesOfSize) = (64, 7)
  private static let pieceCount = pieceSizes * piecesOfSize

  /// Takes what the allocator keeps for this thread away from it.
  ///
  /// That is up to seven free pieces of each size up to 1 KB, wherever they lie: after a crowd they lie far apart, and
  /// 250 KB hold 450 pages. No call empties that cache. So all that is in it is taken out, and freed by a thread that
  /// ends, for whose cache the allocator does it.
  private static func emptyThreadCache() {
    let pieces = UnsafeMutablePointer<UnsafeMutableRawPointer?>.allocate(capacity: pieceCount)
    defer { unsafe pieces.deallocate() }
    for index in 0..<pieceCount {
      let piece = unsafe malloc(smallestPiece + index / piecesOfSize * pieceStep)
      unsafe (pieces + index).initialize(to: piece)
    }
    var thread = pthread_t()
    let code = unsafe pthread_create(&thread, nil, { unsafe HeapPages.free($0) }, pieces)
    if code == 0 { pthread_join(thread, nil) } else { _ = unsafe free(pieces) }
  }

  private static func free(_ pieces: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    let pieces = unsafe pieces?.assumingMemoryBound(to: UnsafeMutableRawPointer?.self)
    for index in 0..<pieceCount { unsafe Glibc.free(pieces?[index]) }
    return nil
  }
}
