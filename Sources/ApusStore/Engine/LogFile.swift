import ApusModel
import Glibc

/// A file in the engine's log format, block by block.
enum LogFile {
  struct Fault: Error {
    var code = errno
    var text: String { unsafe String(cString: strerror(code)) }
  }

  /// Visits each block; a file without bytes has one that is empty.
  static func read(
    _ path: String, _ visit: (_ block: Span<UInt8>, _ isLast: Bool) throws(Fault) -> Void
  ) throws(Fault) {
    // Nonblocking, because anything might have such a name.
    let file = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard file >= 0 else { throw Fault() }
    defer { close(file) }
    var status = stat()
    guard unsafe fstat(file, &status) == 0 else { throw Fault() }
    guard status.st_mode & S_IFMT == S_IFREG else { throw Fault(code: EINVAL) }
    var rest = Int(status.st_size)
    var block = [UInt8](repeating: 0, count: LogReader.blockBytes)
    repeat {
      let count = min(rest, block.count)
      try read(file, count, into: &block)
      rest -= count
      try visit(block.span.extracting(0..<count), rest == 0)
    } while rest > 0
  }

  /// Reads `wanted` bytes.
  private static func read(
    _ file: Int32, _ wanted: Int, into block: inout [UInt8]
  ) throws(Fault) {
    var count = 0
    while count < wanted {
      let got = unsafe block.withUnsafeMutableBytes { bytes in
        let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[count..<wanted])
        return unsafe Glibc.read(file, rest.baseAddress, rest.count)
      }
      if got < 0, errno == EINTR { continue }
      guard got > 0 else { throw Fault(code: got == 0 ? EIO : errno) }
      count += got
    }
  }

  // MARK: Damage that the engine cannot pass

  /// Marks records whose damaged type is one of recycled logs, which the engine takes for the end of the log, or never
  /// gets past when it is to skip damage. It skips an unknown type.
  ///
  /// Changes a copy, which then replaces the file: the file itself may have further names.
  static func mend(_ path: String) throws(Fault) {
    let places = try recycledTypes(path)
    guard !places.isEmpty else { return }
    let copy = path + ".new"
    do throws(Fault) {
      try write(path, to: copy, changing: places)
      guard unsafe rename(copy, path) == 0 else { throw Fault() }
    } catch {
      unsafe _ = unlink(copy)
      throw error
    }
  }

  /// The offsets of the types in `path` that the engine would take for those of a recycled log.
  private static func recycledTypes(_ path: String) throws(Fault) -> [Int] {
    var places: [Int] = []
    var reader = LogReader()
    var offset = 0
    try read(path) { block, isLast in
      while let item = reader.next(in: block, isLast: isLast) {
        guard case .damage(let start) = item, start >= offset,
          let place = LogReader.recycledType(in: block, at: start - offset)
        else { continue }
        places.append(offset + place)
      }
      offset += block.count
    }
    return places
  }

  private static func write(
    _ path: String, to copy: String, changing places: [Int]
  ) throws(Fault) {
    let file = unsafe open(copy, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard file >= 0 else { throw Fault() }
    defer { close(file) }
    var offset = 0
    try read(path) { (block, _) throws(Fault) in
      var bytes: [UInt8] = []
      bytes.append(block)
      for place in places where (offset..<offset + block.count).contains(place) {
        bytes[place - offset] = .max
      }
      offset += block.count
      try write(bytes, to: file)
    }
    guard fsync(file) == 0 else { throw Fault() }
  }

  private static func write(_ bytes: [UInt8], to file: Int32) throws(Fault) {
    var count = 0
    while count < bytes.count {
      let written = unsafe bytes.withUnsafeBytes { all in
        let rest = unsafe UnsafeRawBufferPointer(rebasing: all[count...])
        return unsafe Glibc.write(file, rest.baseAddress, rest.count)
      }
      if written < 0, errno == EINTR { continue }
      guard written > 0 else { throw Fault(code: written == 0 ? ENOSPC : errno) }
      count += written
    }
  }
}
