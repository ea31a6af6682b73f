import ApusLog
import ApusModel
import ApusServer
import ApusTesting
import Synchronization
import Testing

/// Collects log lines.
private final class Lines: Sendable {
  private let all = Mutex<[String]>([])

  var sink: @Sendable (String) -> Void { { line in self.all.withLock { $0.append(line) } } }

  func count(_ event: String) -> Int {
    all.withLock { $0.count { $0.hasPrefix(event) } }
  }

  var last: String? { all.withLock { $0.last } }
}

@Suite("Log lines caused by untrusted peers")
struct LimitedLogTests {
  @Test("Copies of a log share the lines of a kind, and suppressed fields are never built")
  func copies() {
    let lines = Lines()
    let log = Log(minimumLevel: .info, sink: lines.sink)
    let copy = log
    var built = 0
    for index in 0..<Limits.logLinesPerWindow + 7 {
      (index.isMultiple(of: 2) ? log : copy).limited(.info, .tlsFailed, atMilliseconds: 1) {
        built += 1
        return [.text("reason", "no reason")]
      }
    }
    #expect(lines.count("tls failed") == Limits.logLinesPerWindow)
    #expect(built == Limits.logLinesPerWindow)
    log.tellSuppressed(atMilliseconds: UInt64(Limits.logWindowSeconds) * 1000 + 1)
    #expect(lines.last == #"lines suppressed kind="tls failed" more_suppressed=7"#)
  }

  @Test("Failed handshakes of an untrusted peer leave no more lines than a window allows")
  func handshakes() throws {
    let lines = Lines()
    let service = try TestService(
      nil,
      .init { options in
        options.logLevel = .info
        options.logSink = lines.sink
      })
    let address = service.address(.provider)
    for _ in 0..<Limits.logLinesPerWindow + 10 {
      let untrusted = try RawTCPClient(address)
      // RFC 8446, section 5.1: 0x50 is not a content type.
      try untrusted.send(Array("POST / HTTP/1.1\r\n\r\n".utf8))
      while case .bytes = try untrusted.receive(awaiting: "the end") {}
      untrusted.close()
    }
    #expect(lines.count("tls failed") == Limits.logLinesPerWindow)
    service.stop()
  }
}
