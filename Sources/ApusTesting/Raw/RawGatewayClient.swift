package import ApusModel
package import ApusTLS

/// A provider on the binary interface: frames out, packets of six bytes in.
package final class RawGatewayClient {
  package let tls: RawTLSClient

  package init(_ tls: RawTLSClient) { self.tls = tls }

  package func send(_ frames: [UInt8]...) throws { try tls.send(joined(frames)) }

  /// The next packet; nil if the connection has ended.
  package func packet(awaiting what: String = "a packet") throws -> [UInt8]? {
    try tls.take(6, awaiting: what)
  }

  /// All bytes until the end, how they ended, and how the TCP connection ended.
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
  /// The end of the TCP connection after close_notify.
  package var transport: RawEnd?

  package init(bytes: [UInt8], end: RawEnd, transport: RawEnd?) {
    (self.bytes, self.end, self.transport) = (bytes, end, transport)
  }
}

/// A feedback tuple as on the wire.
package struct RawFeedbackTuple: Sendable, Hashable {
  package var seconds: UInt32
  package var token: [UInt8]

  package init(seconds: UInt32, token: [UInt8]) {
    self.seconds = seconds
    self.token = token
  }

  /// Splits a complete list: time in four bytes, length in two, token.
  package static func list(_ bytes: [UInt8]) throws(RawFault) -> [RawFeedbackTuple] {
    var tuples: [RawFeedbackTuple] = []
    var rest = bytes[...]
    while !rest.isEmpty {
      let head = Array(rest.prefix(6))
      guard head.count == 6 else { throw .unexpected("the list ends in the head of a tuple") }
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
  /// A provider on the binary interface, by default with a new certificate for `TestDirectory.topic`.
  package func gateway(
    _ environment: Environment = .production, listener: Int = 0, identity: TLSIdentity? = nil,
    change: (inout TLSClientConfiguration) -> Void = { _ in }
  ) throws -> RawGatewayClient {
    RawGatewayClient(
      try tls(
        .gateway, environment, listener: listener, protocols: [],
        identity: identity ?? directory.providerIdentity(), change: change))
  }

  /// A feedback reader that has not read anything yet.
  package func feedbackReader(
    _ environment: Environment = .production, topic: String = TestDirectory.topic,
    identity: TLSIdentity? = nil, change: (inout TLSClientConfiguration) -> Void = { _ in }
  ) throws -> RawTLSClient {
    try tls(
      .feedback, environment, protocols: [],
      identity: identity ?? directory.providerIdentity(topic: topic), change: change)
  }

  /// Reads the whole list and confirms it to the service.
  ///
  /// The service removes the rows once it has seen this side's end. The next reader may connect before that, so
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
