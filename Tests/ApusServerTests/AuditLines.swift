import ApusDirectory
import ApusLoop
import ApusServer
import ApusTesting
import Foundation
import Testing

/// The audit log of a service, as it grows.
struct AuditLines {
  let path: String

  init(_ service: TestService) { path = service.directory.data.auditFile }

  func all() -> [[String: Any]] {
    guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return [] }
    return text.split(separator: "\n").compactMap { line in
      try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
    }
  }

  /// The line caused by `body` with this event. The line is written before or after the peer reads its answer.
  func line(
    _ event: String, after body: () throws -> Void,
    sourceLocation: SourceLocation = #_sourceLocation
  ) throws -> [String: String] {
    let before = all().count
    try body()
    let deadline = EventLoop.wallClockMilliseconds() + 60_000
    while true {
      let new = all().dropFirst(before).filter { $0["event"] as? String == event }
      if let line = new.last { return line.compactMapValues { $0 as? String } }
      try #require(
        EventLoop.wallClockMilliseconds() < deadline, "no \(event) in \(path)",
        sourceLocation: sourceLocation)
      usleep(5_000)
    }
  }
}
