import ApusModel
import ApusServer
import ApusWire

extension FaultEffect {
  /// The names of the effects in rules.
  package enum Kind: String, Sendable, CaseIterable {
    case respond, delay, noAnswer, deadToken, resetStream, goAway, closeInTheMiddle
    case binaryError, binarySilence, binaryShutdown
    case deviceOffline, certificate, connections
  }

  /// Reads `{"type": ..., ...}`.
  init(_ value: JSONValue, at place: [JSONStep]) throws(InputFault) {
    var reader = try FieldReader(value, at: place)
    let kind = try reader.required(
      reader.choice("type", Kind.allCases.map { ($0.rawValue, $0) }), "type")
    switch kind {
    case .respond: self = .request(.respond(try Self.answer(&reader)))
    case .delay:
      let milliseconds = try reader.required(
        reader.integer("milliseconds", 1...600_000), "milliseconds")
      var then = PlannedFault.Effect.none
      if let inner = reader.value("then") {
        let here = reader.place(of: "then")
        guard case .request(let effect) = try FaultEffect(inner, at: here) else {
          throw InputFault("must be an effect on a request", at: here)
        }
        if case .delay = effect { throw InputFault("must not be another delay", at: here) }
        then = effect
      }
      self = .request(.delay(milliseconds: UInt64(milliseconds), then: then))
    case .noAnswer: self = .request(.noAnswer)
    case .deadToken:
      self = .request(.deadToken(sinceMilliseconds: try Self.timestamp(&reader)))
    case .resetStream:
      self = .request(.resetStream(code: try Self.code(&reader) ?? Self.internalError))
    case .goAway: self = .request(.goAway(try Self.goAway(&reader)))
    case .closeInTheMiddle: self = .request(.closeInTheMiddle)
    case .binaryError:
      let status = try reader.choice(
        "status", BinaryStatus.allCases.filter { $0 != .noError }.map { ("\($0)", $0) })
      let late = try reader.integer("lateMilliseconds", 0...600_000) ?? 0
      self = .request(
        .binaryError(
          status: try reader.required(status, "status"), lateMilliseconds: UInt64(late)))
    case .binarySilence: self = .request(.binarySilence)
    case .binaryShutdown: self = .request(.binaryShutdown)
    case .deviceOffline: self = .deviceOffline
    case .certificate:
      let which = try reader.choice(
        "which",
        ConnectionOpening.Certificate.allCases.filter { $0 != .good }.map { ($0.rawValue, $0) })
      self = .opening(ConnectionOpening(certificate: try reader.required(which, "which")))
    case .connections:
      let streams = try reader.integer("maxConcurrentStreams", 1...1000)
      let window = try reader.integer("initialWindowBytes", 1...65_535)
      guard streams != nil || window != nil else {
        throw InputFault("must have maxConcurrentStreams or initialWindowBytes", at: place)
      }
      self = .opening(
        ConnectionOpening(
          maxConcurrentStreams: streams.map(Int.init), initialWindowBytes: window.map(Int.init)))
    }
    try reader.finish()
  }

  /// RFC 9113, section 7.
  private static let internalError: UInt32 = 2
  private static let codes: [(name: String, code: UInt32)] = [
    ("noError", 0), ("protocolError", 1), ("internalError", 2), ("flowControlError", 3),
    ("settingsTimeout", 4), ("streamClosed", 5), ("frameSizeError", 6), ("refusedStream", 7),
    ("cancel", 8), ("compressionError", 9), ("connectError", 10), ("enhanceYourCalm", 11),
    ("inadequateSecurity", 12), ("http11Required", 13),
  ]

  /// An error code by its name or its number.
  private static func code(_ reader: inout FieldReader) throws(InputFault) -> UInt32? {
    guard let value = reader.value("code") else { return nil }
    if let known = codes.first(where: { $0.name == value.string }) { return known.code }
    guard let number = value.integer, let code = UInt32(exactly: number) else {
      throw reader.fault(
        "code", "must be a number, or one of \(codes.map(\.name).joined(separator: ", "))")
    }
    return code
  }

  private static func answer(
    _ reader: inout FieldReader
  ) throws(InputFault) -> PlannedFault.Answer {
    let text = try reader.string("reason", maximumBytes: 100)
    let status = try reader.integer("status", 200...599)
    let known = text.flatMap { text -> Reason? in
      let bytes = Array(text.utf8)
      return Reason(text: bytes.span)
    }
    guard let status = status ?? known.map({ Int64($0.status) }) else {
      guard let text else {
        throw InputFault("must have a reason or a status", at: reader.place)
      }
      throw reader.fault(
        "reason", "\"\(text)\" is not one of Apple's reasons, so a status is required")
    }
    return PlannedFault.Answer(
      status: UInt16(status), reason: text ?? "",
      timestampMilliseconds: try timestamp(&reader),
      retryAfterSeconds: try reader.integer("retryAfterSeconds", 0...86_400).map(Int.init))
  }

  /// When the token became invalid.
  private static func timestamp(_ reader: inout FieldReader) throws(InputFault) -> Int64? {
    try reader.integer("timestampMilliseconds", 0...Int64.max)
  }

  private static func goAway(
    _ reader: inout FieldReader
  ) throws(InputFault) -> PlannedFault.GoAway {
    let last = try reader.choice(
      "lastStream", PlannedFault.GoAway.LastStream.allCases.map { ($0.rawValue, $0) })
    return PlannedFault.GoAway(
      lastStream: last ?? .thisOne, reason: try reader.string("reason", maximumBytes: 100),
      code: try code(&reader) ?? 0, closes: try reader.bool("closes") ?? false)
  }
}
