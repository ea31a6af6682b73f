import ApusModel
import Foundation
import Testing

/// The table of limits for untrusted peers.
@Suite("The security page says what is so")
struct SecurityPageTests {
  private let rows: [[String]]

  init() throws {
    let page = try #require(Repository.files.first { $0.path == "Documentation/security.md" })
    rows = page.lines.filter { $0.hasPrefix("| ") }.map { line in
      line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().map {
        $0.trimmingCharacters(in: .whitespaces)
      }
    }.filter { !$0[0].hasPrefix("---") && $0[0] != "what" }
  }

  @Test("Each limit names a test that there is")
  func tests() {
    #expect(rows.count > 40)
    let sources = Repository.files.filter {
      $0.path.hasPrefix("Tests/") && $0.path.hasSuffix(".swift")
    }
    for row in rows {
      let names = row[3].split(separator: ", ").map { $0.filter { $0 != "`" } }
      #expect(!names.isEmpty, "\(row[0])")
      for name in names {
        let exists = sources.contains {
          $0.lines.contains { $0.hasSuffix("struct \(name) {") || $0.hasSuffix("class \(name) {") }
        }
        #expect(exists, "\(row[0]): there is no \(name)")
      }
    }
  }

  /// The numbers of the code, in the order of the page.
  private static let limits: [String: [Int]] = [
    "accepted while there is no room": [Limits.crowdedAtOnce, Limits.crowdedPerSecond],
    "descriptors reserved for store and administration": [Limits.reservedDescriptors],
    "timed-out connections ended in a turn of a loop": [Limits.duePerTurn],
    "time for a TLS handshake": [Limits.handshakeSeconds],
    "handshakes continued in a turn of an acceptor": [Limits.handshakesPerTurn],
    "handshakes of an acceptor that wait for their peers": [Limits.handshakesHalfOpen],
    "the least time for a peer's part of a handshake": [
      Int(Limits.handshakePatienceMilliseconds / 1000)
    ],
    "untrusted bytes processed in a turn of an acceptor": [Limits.untrustedTurnBytes],
    "time in which it keeps its window closed for answers": [Limits.writeStallSeconds],
    "a connection without a valid credential": [Limits.untrustedConnectionSeconds],
    "its streams after it acknowledged SETTINGS": [Limits.concurrentStreamsUntrusted],
    "its streams before that": [Limits.streamsBeforeSettings],
    "bytes of a request's header list": [Limits.headerListBytes],
    "bytes that a header block expands to": [Limits.headerBlockBytes],
    "CONTINUATION frames after one HEADERS": [Limits.continuationFrames],
    "idle frames (8)": [Limits.idleFrameBurst, Limits.idleFramesPerSecond],
    "streams reset by the client": [Limits.resetBurst, Limits.resetsPerSecond],
    "answers to PING and SETTINGS that it does not read": [Limits.pendingAcknowledgements],
    "RST_STREAM frames that it does not read": [Limits.pendingResets],
    "time from the handshake to the first whole frame": [Limits.courierConnectSeconds],
    "bytes of a frame's fields": [Limits.courierFrameBytes],
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
    "lines of one kind in the log": [Limits.logLinesPerWindow, Limits.logWindowSeconds],
  ]

  @Test("The numbers are those of the code", arguments: limits.keys.sorted())
  func numbers(what: String) throws {
    let row = try #require(rows.first { $0[0] == what })
    let digits = row[1].replacing(",", with: "").replacing(/\([0-9]+\)/, with: "")
    let numbers = digits.split { !$0.isNumber }.compactMap { Int($0) }
    #expect(numbers.starts(with: Self.limits[what] ?? []), "\(row[1])")
  }
}
