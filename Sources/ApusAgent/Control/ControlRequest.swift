import ApusWire

/// A line from a local program.
enum ControlRequest: Sendable, Equatable {
  case status
  case tokens
  case history(count: Int)
  /// Registers a topic, and answers with its token.
  case register(topic: String)
  case unregister(topic: String)
  /// The program wants the notifications of a topic on this connection.
  case subscribe(topic: String)
  case unsubscribe(topic: String)
  /// The program has taken care of a notification; nil: of each topic with this id.
  case acknowledge(id: String, topic: String?)

  /// Bytes of a line without its end.
  static let lineBytes = 4096

  /// - Throws: What is wrong with the line, for its sender.
  init(line: Span<UInt8>) throws(AgentFault) {
    guard let object = (try? JSONValue(parsing: line))?.object else {
      throw AgentFault("the line is not a JSON object")
    }
    guard let operation = object["op"]?.string else {
      throw AgentFault("the object has no member \"op\" with a text")
    }
    switch operation {
    case "status": self = .status
    case "tokens": self = .tokens
    case "history":
      let count = object["count"]?.integer ?? 20
      guard 1...1000 ~= count else { throw AgentFault("count must be from 1 to 1000") }
      self = .history(count: Int(count))
    case "register": self = .register(topic: try Self.topic(object))
    case "unregister": self = .unregister(topic: try Self.topic(object))
    case "subscribe": self = .subscribe(topic: try Self.topic(object))
    case "unsubscribe": self = .unsubscribe(topic: try Self.topic(object))
    case "acknowledge":
      guard let id = object["id"]?.string else { throw AgentFault("acknowledge needs an id") }
      self = .acknowledge(id: id, topic: object["topic"] == nil ? nil : try Self.topic(object))
    default: throw AgentFault("there is no operation \"\(operation)\"")
    }
  }

  private static func topic(_ object: JSONObject) throws(AgentFault) -> String {
    guard let topic = object["topic"]?.string, TopicRule.isTopic(topic) else {
      throw AgentFault("the member \"topic\" must be a topic such as com.example.app")
    }
    return topic
  }
}

/// The bytes of a connection, as lines of at most `ControlRequest.lineBytes`.
struct LineBuffer: Sendable {
  private var bytes: [UInt8] = []

  /// The complete lines, without their ends.
  ///
  /// - Throws: If a line is too long. The connection cannot continue then.
  mutating func take(_ input: some Sequence<UInt8>) throws(AgentFault) -> [[UInt8]] {
    bytes += input
    var lines: [[UInt8]] = []
    var start = 0
    while let end = bytes[start...].firstIndex(of: 0x0a) {
      lines.append(Array(bytes[start..<end]))
      start = end + 1
    }
    bytes.removeFirst(start)
    let longest = max(lines.map(\.count).max() ?? 0, bytes.count)
    guard longest <= ControlRequest.lineBytes else {
      throw AgentFault("a line is longer than \(ControlRequest.lineBytes) bytes")
    }
    return lines
  }
}
