import ApusModel
import Foundation
import Testing

/// The tables of limits for untrusted peers and for teams.
@Suite("The security page says what is so")
struct SecurityPageTests {
  private struct Row {
    /// The heading above its table.
    var section: String
    var what: String
    var limit: String
    var response: String
    var tests: [String]

    /// The numbers of the limit and of the response, without references to notes.
    var numbers: [Int] {
      let text = "\(limit) | \(response)".replacing(",", with: "").replacing(/\([0-9]+\)/, with: "")
      return text.split { !$0.isNumber }.compactMap { Int($0) }
    }
  }

  private let rows: [Row]

  init() throws {
    let page = try #require(Repository.files.first { $0.path == "Documentation/security.md" })
    var rows: [Row] = []
    var section = ""
    for line in page.lines {
      if line.hasPrefix("#") {
        section = line.drop { $0 == "#" }.trimmingCharacters(in: .whitespaces)
      }
      guard line.hasPrefix("| "), !line.hasPrefix("| --- "), !line.hasPrefix("| what ") else {
        continue
      }
      let cells = line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().map {
        $0.trimmingCharacters(in: .whitespaces)
      }
      rows.append(
        Row(
          section: section, what: cells[0], limit: cells[1], response: cells[2],
          tests: cells[3].split(separator: ", ").map { $0.filter { $0 != "`" } }))
    }
    self.rows = rows
  }

  @Test("Each limit names a test that there is")
  func tests() {
    #expect(rows.count > 40)
    let sources = Repository.files.filter {
      $0.path.hasPrefix("Tests/") && $0.path.hasSuffix(".swift")
    }
    let suites = Set(
      sources.flatMap(\.lines).filter { $0.utf8.last == UInt8(ascii: "{") }.compactMap { line in
        let words = line.split(separator: " ").suffix(3)
        return words.count == 3 && ["struct", "class"].contains(words[words.startIndex])
          ? words[words.startIndex + 1] : nil
      })
    for row in rows {
      #expect(!row.tests.isEmpty, "\(row.what)")
      for name in row.tests {
        #expect(suites.contains(name[...]), "\(row.what): there is no \(name)")
      }
    }
  }

  // MARK: Numbers

  /// A share "8/9" of what there is, as a multiple of what is left.
  private static func share(_ perFree: Int) -> [Int] { [perFree, perFree + 1] }
  /// A share "8/(8n+1)", with n that want many.
  private static func sharedShare(_ perFree: Int) -> [Int] { [perFree, perFree, 1] }

  private static let connections: [String: [Int]] = [
    "from one address (or /64)": sharedShare(Limits.untrustedPerFree),
    "of one listener": share(Limits.untrustedPerFreeOfListener),
    "of one listener, for an address without a connection":
      share(Limits.untrustedFirstPerFreeOfListener),
    "of all listeners of an environment": share(Limits.untrustedPerFreeOfEnvironment),
    "of an environment, for an address without a connection":
      share(2 * Limits.untrustedFirstPerFreeOfListener),
    "accepted while there is no room": [Limits.crowdedAtOnce, Limits.crowdedPerSecond],
    "descriptors reserved for store and administration": [Limits.reservedDescriptors],
    "timed-out connections ended in a turn of a loop": [Limits.duePerTurn],
    "time for a TLS handshake": [Limits.handshakeSeconds],
    "bytes of a proxy's header": [Limits.proxyLineBytes, Limits.proxyHeaderBytes],
    "handshakes continued in a turn of an acceptor": [Limits.handshakesPerTurn],
    "handshakes of an acceptor that wait for their peers":
      [Limits.handshakesHalfOpen] + share(Limits.untrustedPerFreeOfEnvironment)
      + share(Limits.untrustedPerFree),
    "the least time for a peer's part of a handshake": [
      Int(Limits.handshakePatienceMilliseconds / 1000)
    ],
    "untrusted bytes processed in a turn of an acceptor": [Limits.untrustedTurnBytes],
  ]

  private static let http2: [String: [Int]] = [
    "a connection without a valid credential": [Limits.untrustedConnectionSeconds],
    "its streams after it acknowledged SETTINGS": [Limits.concurrentStreamsUntrusted],
    "its streams before that": [Limits.streamsBeforeSettings],
    "bytes of a request's body": [Limits.discardedBodyBytes, 413],
    "bytes of a request's header list": [
      Limits.headerListBytes, 431, Limits.headerListResetBytes,
    ],
    "bytes that a header block expands to": [Limits.headerBlockBytes],
    "the same, beyond \(grouped(Limits.headerListBytes))": [Limits.headerBytesPerFrame],
    "CONTINUATION frames after one HEADERS": [Limits.continuationFrames],
    "idle frames (8)": [Limits.idleFrameBurst, Limits.idleFramesPerSecond],
    "streams reset by the client": [Limits.resetBurst, Limits.resetsPerSecond],
    "answers to PING and SETTINGS that it does not read": [Limits.pendingAcknowledgements],
    "RST_STREAM frames that it does not read": [Limits.pendingResets],
    "time in which it keeps its window closed for answers": [Limits.writeStallSeconds],
    "time to receive a frame": [Limits.requestSeconds],
    "time to receive a request": [Limits.requestSeconds, 400],
  ]

  private static let devices: [String: [Int]] = [
    "time from the handshake to the first whole frame": [Limits.courierConnectSeconds],
    "bytes of a frame's fields": [Limits.courierFrameBytes],
  ]

  private static let enrolment: [String: [Int]] = [
    "bytes of a certificate request": [Limits.certificateRequestBytes],
    "requests of all devices": [Limits.enrolments, Limits.enrolmentsPerSecond],
    "requests that wait to be decided on": [Limits.enrolmentQueue],
    "time from a request to its answer": [Limits.enrolmentSeconds],
    "wrong one-time codes from an address": [
      Limits.enrolmentFailuresPerAddress, Limits.enrolmentFailuresPerAddressPerMinute,
    ],
    "devices without a code that wait for approval": [
      Limits.pendingEnrolments, Limits.pendingEnrolmentsPerAddress,
    ],
  ]

  /// `ServerTests` compares the others: their constants are not in `Limits`.
  private static let administration: [String: [Int]] = [
    // Tenths of a second: the digits on both sides of the point.
    "wrong tokens of an address (or /64)": [
      Limits.failuresAnsweredAtOnce, 0, Int(Limits.firstHoldMilliseconds / 100),
    ],
    // `AttemptGuardTests` checks that the longest time is 32 times the first one.
    "the same": [
      Limits.failuresUntilRefused, Int(Limits.firstRefusalSeconds),
      Int(32 * Limits.firstRefusalSeconds),
    ],
    "one wrong token is forgotten": [Int(Limits.failureForgivenSeconds)],
  ]

  /// `AuditLogTests` compares the lines of the audit log.
  private static let lines: [String: [Int]] = [
    "lines of one kind in the log": [Limits.logLinesPerWindow, Limits.logWindowSeconds]
  ]

  private static let teams: [String: [Int]] = [
    "connections of a team's providers": sharedShare(Limits.providersPerFree),
    "open requests of a team in a worker":
      sharedShare(Limits.openRequestsPerFree)
      + [Limits.openRequests - Limits.openRequestsReserved],
  ]

  private static let limits: [String: [String: [Int]]] = [
    "Connections": connections, "HTTP/2": http2, "Devices": devices, "Enrolment": enrolment,
    "Administration": administration, "Lines that they leave": lines, "Limits for teams": teams,
  ]

  /// 8000 as "8,000".
  private static func grouped(_ number: Int) -> String {
    "\(number / 1000),\(String(number % 1000 + 1000).dropFirst())"
  }

  @Test("The numbers are those of the code", arguments: limits.keys.sorted())
  func numbers(section: String) {
    for (what, numbers) in Self.limits[section] ?? [:] {
      let found = rows.filter { $0.section == section && $0.what == what }
      #expect(found.map(\.numbers) == [numbers], "\(what)")
    }
  }

  @Test("Each limit is compared with the code, here or by the test that it names")
  func complete() {
    let elsewhere: Set = ["ServerTests", "AuditLogTests"]
    for row in rows where !(row.tests.count == 1 && elsewhere.contains(row.tests[0])) {
      #expect(Self.limits[row.section]?[row.what] != nil, "\(row.section): \(row.what)")
    }
  }
}
