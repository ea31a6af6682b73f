import Glibc

/// The memory of a journal: a mapped file, so that it outlives the process, or plain memory for tests and simulations.
///
/// One thread uses it at a time.
@safe package final class JournalMemory: @unchecked Sendable {
  private let memory: UnsafeMutableRawBufferPointer
  private let isMapped: Bool

  package var count: Int { unsafe memory.count }

  /// Plain memory, zeroed.
  package init(byteCount: Int) {
    unsafe memory = .allocate(byteCount: byteCount, alignment: 64)
    unsafe memory.initializeMemory(as: UInt8.self, repeating: 0)
    isMapped = false
  }

  /// Maps the file at `path`, creating it if necessary, with `byteCount` bytes or as many as it has.
  ///
  /// All of its blocks are allocated: writing to a page without one would end the process when the disk is full
  /// (SIGBUS).
  ///
  /// - Throws: Why it cannot be mapped.
  package init(mapping path: String, byteCount: Int) throws(JournalFault) {
    let file = unsafe open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard file >= 0 else { throw JournalFault("opening \(path)", errno) }
    defer { Glibc.close(file) }
    var status = stat()
    guard unsafe fstat(file, &status) == 0 else { throw JournalFault("reading \(path)", errno) }
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw JournalFault("\(path) is not a regular file", EINVAL)
    }
    let count = max(byteCount, Int(status.st_size))
    let shortage = posix_fallocate(file, 0, count)
    guard shortage == 0 else {
      // ext4 keeps the blocks allocated so far, and the store would have none.
      if status.st_size == 0 {
        unsafe _ = unlink(path)
      } else {
        _ = ftruncate(file, status.st_size)
      }
      throw JournalFault("allocating \(count) bytes for \(path)", shortage)
    }
    let address = unsafe mmap(nil, count, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
    guard unsafe address != MAP_FAILED, let address = unsafe address else {
      throw JournalFault("mapping \(path)", errno)
    }
    unsafe memory = UnsafeMutableRawBufferPointer(start: address, count: count)
    isMapped = true
  }

  deinit {
    if isMapped {
      unsafe munmap(memory.baseAddress, memory.count)
    } else {
      unsafe memory.deallocate()
    }
  }

  /// Lets the system drop the file's pages from the process until they are used again. Their bytes are kept.
  func rest() {
    if isMapped { unsafe madvise(memory.baseAddress, memory.count, MADV_DONTNEED) }
  }

  /// All bytes, while nothing is written.
  package var bytes: Span<UInt8> {
    @_lifetime(borrow self)
    borrowing get {
      let bytes = unsafe Span<UInt8>(_unsafeBytes: UnsafeRawBufferPointer(memory))
      return unsafe _overrideLifetime(bytes, borrowing: self)
    }
  }

  /// Writes bytes, which must be in range.
  func write(_ bytes: Span<UInt8>, at offset: Int) {
    precondition(offset >= 0 && bytes.count <= count - offset, "beyond the journal's end")
    unsafe bytes.withUnsafeBytes { source in
      unsafe UnsafeMutableRawBufferPointer(rebasing: memory[offset...]).copyMemory(from: source)
    }
  }

  /// Writes a number at a multiple of 8. A reader sees either the old one or the new one.
  func store(_ value: UInt64, at offset: Int) {
    precondition(offset >= 0 && offset % 8 == 0 && 8 <= count - offset, "beyond the journal's end")
    unsafe memory.storeBytes(of: value.bigEndian, toByteOffset: offset, as: UInt64.self)
  }

  /// Zeroes bytes, which must be in range. Pages that are zero already are only read, so that a journal that was little
  /// used costs a start neither memory nor writes to the disk.
  func clear(_ range: Range<Int>) {
    precondition(range.lowerBound >= 0 && range.upperBound <= count, "beyond the journal's end")
    var start = range.lowerBound
    while start < range.upperBound {
      let end = min(range.upperBound, (start / Self.pageBytes + 1) * Self.pageBytes)
      let part = unsafe UnsafeMutableRawBufferPointer(rebasing: memory[start..<end])
      if unsafe !Self.isZero(part) {
        unsafe part.initializeMemory(as: UInt8.self, repeating: 0)
      }
      start = end
    }
  }

  private static let pageBytes = 4096

  /// Whether all bytes are zero: the first is, and each equals the next.
  private static func isZero(_ bytes: UnsafeMutableRawBufferPointer) -> Bool {
    guard let base = bytes.baseAddress, unsafe bytes[0] == 0 else { return unsafe bytes.isEmpty }
    return unsafe memcmp(base, base + 1, bytes.count - 1) == 0
  }
}

/// Why a journal cannot be used.
package struct JournalFault: Error, CustomStringConvertible {
  package let description: String

  init(_ action: String, _ error: Int32) {
    description = unsafe "\(action): \(String(cString: strerror(error)))"
  }
}
