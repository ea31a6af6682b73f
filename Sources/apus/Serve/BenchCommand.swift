import ApusCommand
import Glibc

/// `apus bench`: replaces this process by `apus-bench`, so that signals, descriptors and exit code are its own.
enum BenchCommand {
  private static let program = "apus-bench"

  /// - Parameter arguments: Those after `bench`.
  static func run(_ arguments: [String]) throws(CommandFailure) -> Never {
    let path = try folder() + "/" + program
    var words: [UnsafeMutablePointer<CChar>?] = unsafe ([program] + arguments).map {
      unsafe strdup($0)
    }
    unsafe words.append(nil)
    unsafe execv(path, words)
    throw CommandFailure(
      .configuration, "cannot run \(path): \(unsafe String(cString: strerror(errno)))",
      remedy: "`apus-bench` must be in the same folder as `apus`, as after a build from source.")
  }

  /// The folder of this program, whatever name it was called by.
  private static func folder() throws(CommandFailure) -> String {
    var path = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = unsafe readlink("/proc/self/exe", &path, path.count)
    guard count > 0 else {
      throw CommandFailure(
        .configuration,
        "cannot find the folder of this program: \(unsafe String(cString: strerror(errno)))")
    }
    let bytes = path[..<count].map { UInt8(bitPattern: $0) }
    let text = String(decoding: bytes, as: UTF8.self)
    return String(text[..<(text.lastIndex(of: "/") ?? text.startIndex)])
  }
}
