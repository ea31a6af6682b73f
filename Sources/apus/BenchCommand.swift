import ApusCommand
import Glibc

/// `apus bench`: becomes the program `apus-bench`, so that signals, descriptors and the exit code are that one's own.
enum BenchCommand {
  private static let program = "apus-bench"

  /// - Parameter arguments: Those behind `bench`.
  static func run(_ arguments: [String]) throws(CommandFailure) -> Never {
    let path = try folder() + "/" + program
    var words: [UnsafeMutablePointer<CChar>?] = unsafe ([program] + arguments).map {
      unsafe strdup($0)
    }
    unsafe words.append(nil)
    unsafe execv(path, words)
    throw CommandFailure(
      .configuration, "cannot run \(path): \(unsafe String(cString: strerror(errno)))",
      remedy: "The program for measuring has to lie beside `apus`, as a build from source puts it.")
  }

  /// Where this program is, whatever name it was called by.
  private static func folder() throws(CommandFailure) -> String {
    var path = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = unsafe readlink("/proc/self/exe", &path, path.count)
    guard count > 0 else {
      throw CommandFailure(
        .configuration,
        "cannot tell where this program is: \(unsafe String(cString: strerror(errno)))")
    }
    let bytes = path[..<count].map { UInt8(bitPattern: $0) }
    let text = String(decoding: bytes, as: UTF8.self)
    return String(text[..<(text.lastIndex(of: "/") ?? text.startIndex)])
  }
}
