import ApusModel
import ApusStore
import Glibc

/// Reads a store while the service writes to it.
final class StoreFollowing {
  let store: any StoreFollower
  /// A directory that the embedded engine needs for that.
  private let scratch: String?

  init(_ database: any StoreFollower) {
    store = database
    scratch = nil
  }

  init(_ path: String) throws {
    let scratch = try Self.makeScratch()
    self.scratch = scratch
    do {
      store = try RocksFollower(path: path, scratch: scratch)
    } catch {
      try? FileTree.remove(scratch)
      throw error
    }
  }

  deinit {
    if let scratch { try? FileTree.remove(scratch) }
  }

  /// Visits the record of each device in each environment in which it has connected.
  func scanDevices(_ visit: (DeviceID, DeviceRecord) -> Void) throws {
    var failure: RecordError?
    try store.scan(.devices, prefix: Span()) { key, value in
      do throws(RecordError) {
        visit(
          try DeviceID(storeKey: key.extracting(first: 8)), try DeviceRecord(decoding: value))
        return true
      } catch {
        failure = error
        return false
      }
    }
    if let failure { throw failure }
  }

  private static func makeScratch() throws -> String {
    let base = unsafe getenv("TMPDIR").map { unsafe String(cString: $0) } ?? "/tmp"
    var template = Array("\(base)/apus-log-XXXXXX".utf8CString)
    guard unsafe mkdtemp(&template) != nil else {
      throw DirectoryProblem("cannot create a directory in \(base): set TMPDIR to another")
    }
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
