import Glibc
import Synchronization

/// A new directory below the system's directory for temporary files, removed with this object or at the latest when the
/// process ends.
package final class TemporaryDirectory: Sendable {
  package let path: String

  package init() {
    let base = unsafe getenv("TMPDIR").flatMap { unsafe String(cString: $0) } ?? "/tmp"
    var template = Array("\(base)/apus-testing-XXXXXX".utf8CString)
    let made = unsafe template.withUnsafeMutableBufferPointer { buffer -> String? in
      guard let base = buffer.baseAddress, let path = unsafe mkdtemp(base) else { return nil }
      return unsafe String(cString: path)
    }
    guard let made else { preconditionFailure("cannot create a temporary directory in \(base)") }
    path = made
    Leftovers.add(made)
  }

  deinit { remove() }

  package func remove() {
    removeTree(path)
    Leftovers.remove(path)
  }
}

/// Removes a directory with its contents, without following links. Missing files are not an error.
private func removeTree(_ path: String) {
  if let directory = unsafe opendir(path) {
    while let entry = unsafe readdir(directory) {
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { name in
        unsafe String(cString: UnsafeRawPointer(name).assumingMemoryBound(to: CChar.self))
      }
      if name == "." || name == ".." { continue }
      let child = "\(path)/\(name)"
      if unsafe unlink(child) != 0, errno == EISDIR || errno == EPERM { removeTree(child) }
    }
    unsafe closedir(directory)
  }
  unsafe rmdir(path)
}

/// Directories of services that live as long as the process, which nobody else removes.
private enum Leftovers {
  private static let paths = Mutex<Set<String>>([])
  private static let isRegistered: Bool =
    atexit {
      Leftovers.paths.withLock { $0 }.forEach(removeTree)
    } == 0

  static func add(_ path: String) {
    precondition(isRegistered, "atexit failed")
    paths.withLock { _ = $0.insert(path) }
  }

  static func remove(_ path: String) { paths.withLock { _ = $0.remove(path) } }
}
