import ApusModel

@testable import ApusHTTP2

/// A client session, fed and read as bytes.
struct Client {
  let session = HTTP2ClientSession()

  /// - Parameter shares: Whether requests share an authority and a token, as those of `submit` need.
  init(shares: Bool = true) {
    guard shares else { return }
    session.share(authority: Array("push.example".utf8).span, authorization: Array("bearer a".utf8))
  }

  /// A client that got the server's SETTINGS and acknowledgement, with its first output taken.
  static func ready(
    streams: UInt32 = 1000, _ settings: [UInt8] = [], shares: Bool = true
  ) -> Client {
    let client = Client(shares: shares)
    _ = client.outputBytes()
    _ = client.receive(
      frame(Kind.settings, 0, stream: 0, [0x00, 0x03] + big(streams) + settings)
        + frame(Kind.settings, Flag.acknowledge))
    _ = client.outputBytes()
    return client
  }

  /// The same with this many requests sent: streams 1, 3, 5 and so on.
  static func sent(_ count: Int) -> Client {
    let client = ready()
    for _ in 0..<count { _ = client.submit() }
    _ = client.outputBytes()
    return client
  }

  @discardableResult
  func submit(body: [UInt8] = Array("{}".utf8), topic: String = "com.example") -> Int32? {
    var fields = HTTP2FieldList()
    fields.add(.path, "/3/device/aabb")
    fields.add(.apnsTopic, value: Array(topic.utf8).span)
    return session.submit(fields, body: body, tag: body.count)
  }

  @discardableResult
  func receive(_ bytes: [UInt8]) -> HTTP2SessionResult { session.receive(bytes.span) }

  func outputBytes(limit: Int = .max) -> [UInt8] {
    var bytes: [UInt8] = []
    session.pendingOutput(into: &bytes, limit: limit)
    return bytes
  }

  func output() -> [Frame] { frames(outputBytes()) ?? [] }

  /// The outcomes that are known now, each in words: a status, or a failure.
  func outcomes() -> [Int32: String] {
    var outcomes: [Int32: String] = [:]
    while let response = session.nextResponse() {
      let text = response.failure.map { "\($0.text)" } ?? "\(response.status)"
      outcomes[response.streamID] = outcomes[response.streamID].map { "\($0), \(text)" } ?? text
      session.release(response)
    }
    return outcomes
  }

  /// Ends the connection, and returns the outcomes that were still open or not taken yet.
  func lost() -> [Int32: String] {
    session.connectionLost()
    return outcomes()
  }
}

extension HTTP2StreamFailure {
  var text: String {
    switch self {
    case .reset(let code): "reset \(code.rawValue)"
    case .refused: "refused"
    case .goneAway: "gone away"
    case .connectionLost: "lost"
    }
  }
}
