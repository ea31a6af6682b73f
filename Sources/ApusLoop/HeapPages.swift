internal import CUV
import Glibc

/// The pages of the heap.
package enum HeapPages {
  /// Returns free pages to the system. The allocator itself returns only the end of its heap; memory that a crowd used
  /// and freed would stay with the process.
  ///
  /// Other threads that allocate wait meanwhile: about 0.2 ms for each megabyte returned.
  package static func returnFree() {
    emptyThreadCache()
    malloc_trim(0)
  }

  /// Bytes of the smallest piece that the allocator caches, and the step between sizes.
  private static let (smallestPiece, pieceStep) = (24, 16)
  /// As in glibc 2.26 to 2.41: `TCACHE_MAX_BINS` and `TCACHE_FILL_COUNT`. With other numbers some pieces stay.
  private static let (pieceSizes, piecesOfSize) = (64, 7)
  private static let pieceCount = pieceSizes * piecesOfSize

  /// Empties the allocator's cache for this thread.
  ///
  /// It has up to seven free pieces of each size up to 1 KB: after a crowd they are scattered, so that 250 KB hold 450
  /// pages. No call empties that cache. So everything in it is allocated and freed by a thread that ends: the
  /// allocator empties the cache of an ending thread.
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
