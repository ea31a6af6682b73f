import ApusModel
import ApusWire
import CourierVectors
import Foundation
import Testing

/// The document of the protocol against its vectors and the limits.
@Suite("The courier protocol's document says what is so")
struct CourierDocumentTests {
  private let page: String

  init() throws {
    page = try String(
      contentsOf: CourierVector.root.appending(path: "Documentation/courier")
        .appendingPathExtension("md"), encoding: .utf8)
  }

  /// The rows of all tables: the text of their cells.
  private var rows: [[String]] {
    page.split(separator: "\n").filter { $0.hasPrefix("| ") }.map { line in
      line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
    }
  }

  @Test("The table of messages has every command, and each has a vector")
  func messages() {
    var commands: Set<UInt8> = []
    for row in rows {
      guard let first = row.first, first.hasPrefix("`0x") else { continue }
      let digits = first.drop { $0 == "`" }.dropFirst(2).prefix(2)
      if let command = UInt8(digits, radix: 16) { commands.insert(command) }
    }
    #expect(commands == Set(CourierCommand.allCases.map(\.rawValue)))
    #expect(commands.subtracting(CourierVector.all.map { $0.bytes[0] }).isEmpty)
    for vector in CourierVector.all where vector.decoded?["message"] != "unknown" {
      guard vector.decoded != nil else { continue }
      #expect(commands.contains(vector.bytes[0]), "\(vector.name)")
    }
  }

  @Test("The table of faults has those of the vectors")
  func faults() {
    let first = Set(rows.compactMap(\.first))
    for vector in CourierVector.all {
      guard let kind = vector.fault?["kind"] else { continue }
      #expect(first.contains(kind), "\(kind)")
    }
  }

  @Test("The names of the dialects are right")
  func dialects() {
    for dialect in CourierALPN.allCases { #expect(page.contains("`\(dialect.name)`")) }
  }

  /// The bytes of one side in the example: `>` from the device, `<` from the service.
  private func said(_ mark: String) throws -> [UInt8] {
    let start = try #require(page.range(of: "```courier\n"))
    let rest = page[start.upperBound...]
    let end = try #require(rest.range(of: "```"))
    return rest[..<end.lowerBound].split(separator: "\n").flatMap { line -> [UInt8] in
      guard line.hasPrefix(mark), let text = line.split(separator: ";").first else { return [] }
      return hex(String(text.dropFirst()))
    }
  }

  @Test("The session is made of vectors", arguments: [">", "<"])
  func session(mark: String) throws {
    let vectors = CourierVector.all.filter { $0.isToService == (mark == ">") }.map(\.bytes)
    let bytes = try said(mark)
    var framer = CourierFramer()
    var offset = 0
    var start = 0
    var count = 0
    while try framer.next(bytes.span, at: &offset) != nil {
      #expect(vectors.contains(Array(bytes[start..<offset])), "frame \(count) of \(mark)")
      start = offset
      count += 1
    }
    #expect(start == bytes.count)
    #expect(framer.partialBytes == 0)
    #expect(count == (mark == ">" ? 6 : 5))
  }

  @Test("The limits are those of the code")
  func limits() {
    let limits: [String: Int] = [
      "bytes of fields in a frame": Limits.courierFrameBytes,
      "topics in a filter": Limits.courierFilterTopics,
      "bytes of a collapse id": Limits.collapseIDBytes,
      "bytes of a payload": Limits.payloadBytes,
      "bytes of a VoIP payload": Limits.voipPayloadBytes,
      "bytes of flush padding": Limits.courierFlushPaddingBytes,
      "seconds for the TLS handshake": Limits.handshakeSeconds,
      "seconds from handshake to connect": Limits.courierConnectSeconds,
      "seconds from response to filter": Limits.courierFilterSeconds,
      "seconds of silence": Limits.courierIdleSeconds,
      "seconds of silence with unacknowledged notifications": Limits.courierAcknowledgeSeconds,
      "seconds of a write without progress": Limits.writeStallSeconds,
      "unacknowledged notifications": Limits.courierWindowFrames,
      "unacknowledged bytes of payload": Limits.courierWindowBytes,
      "takeovers a minute": Limits.courierTakeoversPerMinute,
      "seconds that a nonce may be off": Int(Limits.courierNonceSeconds),
      "seconds until idle pushes are a burst": Int(Limits.burstMilliseconds / 1000),
      "background pushes an hour": Limits.backgroundPushesPerHour,
      "bytes of a certificate request": Limits.certificateRequestBytes,
      "bytes of a code": Limits.enrolmentCodeBytes,
      "bytes of a device name": Limits.deviceNameBytes,
      "renewals on a connection, before one an hour": Limits.renewalsPerConnection,
      "valid certificates of a device": Limits.certificatesPerDevice,
      "seconds to answer an enrolment": Limits.enrolmentSeconds,
      "subscriptions of a device": Limits.subscriptionsPerDevice,
      "unacknowledged broadcasts": Limits.broadcastWindowFrames,
    ]
    var written: [String: Int] = [:]
    for row in rows where row.count == 4 {
      for index in [0, 2] where limits[row[index]] != nil {
        written[row[index]] = Int(row[index + 1].replacing(",", with: ""))
      }
    }
    #expect(written == limits)
  }
}
