import ApusModel
import ApusWire

/// The message of a list: the same for every row, except for fields inserted into it and fields that override it.
///
/// The fields `topic`, `push-type`, `priority`, `expiration`, `collapse-id`, `id` and `payload` of a row, if not
/// empty, replace the option of that name; `token` or `channel` is the recipient. All others are for templates.
package struct MessageTemplate: Sendable {
  private let base: Message
  /// Nil if the payload is not JSON: it is sent unchanged.
  private let payload: PayloadTemplate?
  private let collapseID: TextTemplate?
  private let shortens: Bool
  /// Those that the options give.
  private let pushType: PushType?
  private let priority: Priority?

  /// - Parameter readFile: Returns the text of the file of `--payload-file`.
  package init(
    _ invocation: Invocation, readFile: (String) throws(CommandFailure) -> String
  ) throws(CommandFailure) {
    base = try Message(list: invocation, readFile: readFile)
    shortens = invocation.isOn(SendOptions.shorten)
    pushType = invocation[ApusOptions.pushType]
    priority = invocation[ApusOptions.priority]
    do throws(ValueProblem) {
      payload =
        JSONValue(text: base.payload) == nil
        ? nil : try PayloadTemplate(json: Array(base.payload.utf8))
      collapseID = try base.collapseID.map { (text) throws(ValueProblem) in try TextTemplate(text) }
    } catch {
      throw CommandFailure(
        .usage, "the message \(error.text)",
        remedy: "Insert a field of a row as {{name}}, or as {{name|default}}.")
    }
  }

  /// The message for a row.
  package func message(for record: Record) throws(RowProblem) -> Message {
    guard case .good(let fields) = record.fields else {
      if case .bad(let problem) = record.fields { throw RowProblem(problem) }
      throw RowProblem("cannot be read")
    }
    var message = base
    try address(&message, fields)
    message.payload = try payload(fields)
    message.topic = try Self.value("topic", .topic, fields)
    if let type = try Self.value("push-type", .pushType, fields) { message.take(type) }
    message.priority = try Self.value("priority", .priority, fields) ?? message.priority
    message.expiration = try Self.value("expiration", .expiration, fields) ?? message.expiration
    message.id = try Self.value("id", .notificationID, fields)
    var collapseText = try Self.text("collapse-id", fields)
    if collapseText == nil { collapseText = try collapseID?.text(fields) }
    message.collapseID = try collapseText.map { (text) throws(RowProblem) in
      try Self.read(text, .collapseID, "collapse-id")
    }
    if shortens { message.shorten() }
    return message
  }

  private func address(
    _ message: inout Message, _ fields: [String: JSONValue]
  ) throws(RowProblem) {
    let token = try Self.value("token", .deviceToken, fields)
    switch (token, try Self.value("channel", .channelID, fields)) {
    case (let token?, nil): message.token = token
    case (nil, let channel?):
      message.become(broadcastTo: channel, type: pushType, priority: priority)
    case (nil, nil): throw RowProblem("has no token and no channel")
    case (_?, _?): throw RowProblem("has a token and a channel")
    }
  }

  private func payload(_ fields: [String: JSONValue]) throws(RowProblem) -> String {
    switch fields["payload"] {
    case nil, .null?, .string("")?: break
    case .object?: return fields["payload"]?.text ?? ""
    case .string(let text)?:
      guard JSONValue(text: text)?.object != nil else {
        throw RowProblem("has a payload that is not a JSON object")
      }
      return text
    default: throw RowProblem("has a payload that is not a JSON object")
    }
    guard !base.payload.isEmpty else { throw RowProblem("has no payload, and no option gives one") }
    guard let payload else { return base.payload }
    return String(decoding: try payload.bytes(fields), as: UTF8.self)
  }

  /// The text of a field; nil if it is empty or missing.
  private static func text(
    _ name: String, _ fields: [String: JSONValue]
  ) throws(RowProblem) -> String? {
    switch fields[name] {
    case nil, .null?, .string("")?: return nil
    case .string(let text)?: return text
    case .integer(let number)?: return "\(number)"
    default: throw RowProblem("has a \(name) that is not a text")
    }
  }

  private static func value<Value>(
    _ name: String, _ syntax: ValueSyntax<Value>, _ fields: [String: JSONValue]
  ) throws(RowProblem) -> Value? {
    guard let text = try text(name, fields) else { return nil }
    return try read(text, syntax, name)
  }

  private static func read<Value>(
    _ text: String, _ syntax: ValueSyntax<Value>, _ name: String
  ) throws(RowProblem) -> Value {
    do throws(ValueProblem) {
      return try syntax.read(text)
    } catch {
      throw RowProblem("has a \(name) that \(error.text)")
    }
  }
}
