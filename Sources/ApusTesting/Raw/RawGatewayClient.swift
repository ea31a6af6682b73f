package import ApusModel
package import ApusTLS

/// A provider on the binary interface: frames out, packets of six bytes in.
package final class RawGatewayClient {
  package let tls: RawTLSClient

  package init(_ tls: RawTLSClient) { self.tls = tls }

  package func send(_ frames: [UInt8]...) throws { try tls.send(Array(frames.joined())) }

  /// The next packet; nil when the connection has ended.
  package func packet(awaiting what: String = "a packet") throws -> [UInt8]? {
    try tls.take(6, awaiting: what)
  }

  /// Everything until the end: the bytes, how they ended, and the end of the connection below.
  package func end() throws -> GatewayEnd {
    let (bytes, end) = try tls.receiveAll()
    return GatewayEnd(
      bytes: bytes, end: end, transport: end == .closeNotify ? try tls.transportEnd() : nil)
  }
}

/// How a connection of the binary interface ended.
package struct GatewayEnd: Sendable, Equatable {
  package var bytes: [UInt8]
  package var end: RawEnd
  /// What came behind close_notify.
  package var transport: RawEnd?

  package init(bytes: [UInt8], end: RawEnd, transport: RawEnd?) {
    (self.bytes, self.end, self.transport) = (bytes, end, transport)
  }
}

/// A tuple of the feedback service as it stands on the wire.
package struct RawFeedbackTuple: Sendable, Hashable {
  package var seconds: UInt32
  package var token: [UInt8]

  package init(seconds: UInt32, token: [UInt8]) {
    self.seconds = seconds
    self.token = token
  }

  /// Cuts a whole list: time in four bytes, length in two, token.
  package static func list(_ bytes: [UInt8]) throws(RawFault) -> [RawFeedbackTuple] {
    var tuples: [RawFeedbackTuple] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      let head = Array(rest.prefix(6))
      guard head.count == 6 else { throw .unexpected("the list ends in a tuple's head") }
      let length = Int(head[4]) << 8 | Int(head[5])
      let token = Array(rest.dropFirst(6).prefix(length))
      guard token.count == length else { throw .unexpected("the list ends in a token") }
      let seconds = head[..<4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
      tuples.append(RawFeedbackTuple(seconds: seconds, token: token))
      rest = rest.dropFirst(6 + length)
    }
    return tuples
  }
}

extension TestService {
  /// A provider of the binary interface; without another one, under a new certificate for `TestDirectory.topic`.
  package func gateway(
    _ environment: Environment = .production, listener: Int = 0, identity: TLSIdentity? = nil,
    change: (inout TLSClientConfiguration) -> Void = { _ in }
  ) throws -> RawGatewayClient {
    RawGatewayClient(
      try tls(
        .gateway, environment, listener: listener, protocols: [],
        identity: identity ?? directory.providerIdentity(), change: change))
  }

  /// A reader of the feedback service, which has read nothing yet.
  package func feedbackReader(
    _ environment: Environment = .production, topic: String = TestDirectory.topic,
    identity: TLSIdentity? = nil, change: (inout TLSClientConfiguration) -> Void = { _ in }
  ) throws -> RawTLSClient {
    try tls(
      .feedback, environment, protocols: [],
      identity: identity ?? directory.providerIdentity(topic: topic), change: change)
  }

  /// Reads the whole list and lets the service know that it has been read.
  ///
  /// The rows are gone once the service has seen this side's end: the next reader may come before that, and
  /// `feedback(until:)` waits for it.
  package func feedback(
    _ environment: Environment = .production, topic: String = TestDirectory.topic,
    identity: TLSIdentity? = nil
  ) throws -> [RawFeedbackTuple] {
    let reader = try feedbackReader(environment, topic: topic, identity: identity)
    let (bytes, end) = try reader.receiveAll()
    guard end == .closeNotify else { throw RawFault.ended(end, awaiting: "the end of the list") }
    try reader.finish()
    reader.close()
    return try RawFeedbackTuple.list(bytes)
  }
}
