import ApusWeb
import ApusWire

/// Responds to the console and to tests. On loopback it needs no password, and rejects requests that come from other
/// sites.
struct DevAPI: WebHandler {
  let context: DevContext
  /// Nil on loopback.
  var password: DevPassword?

  // MARK: The head

  func screen(_ head: inout WebRequest) -> WebResponse? {
    do throws(DevProblem) {
      try checkPlace(head)
      let operation = try DevOperation.find(method: head.method, segments: head.segments).operation
      try checkOrigin(head)
      if let refusal = try checkPassword(head, operation) { return refusal }
      try checkBody(head, operation)
      for field in head.query where !operation.parameters.contains(field.name) {
        let known = operation.parameters.joined(separator: ", ")
        throw DevProblem(
          .invalid,
          "is not a parameter of this operation"
            + (known.isEmpty ? "" : "; its parameters are \(known)"),
          field: field.name)
      }
      return nil
    } catch {
      return error.response
    }
  }

  private func checkPlace(_ head: WebRequest) throws(DevProblem) {
    // With a password, pages of other sites cannot authenticate.
    if password == nil, let problem = head.foreignHost { throw DevProblem(.forbidden, problem) }
  }

  private func checkOrigin(_ head: WebRequest) throws(DevProblem) {
    if let problem = head.foreignOrigin(scheme: "http") { throw DevProblem(.forbidden, problem) }
  }

  /// The console's files, and which service they belong to, need no password.
  private func checkPassword(
    _ head: WebRequest, _ operation: DevOperation
  ) throws(DevProblem) -> WebResponse? {
    guard let password, !operation.isOpen else { return nil }
    return password.refusal(of: head)
  }

  private func checkBody(
    _ head: WebRequest, _ operation: DevOperation
  ) throws(DevProblem) {
    guard head.announcesBody else { return }
    guard let body = operation.route.body else {
      throw DevProblem(.malformed, "\(head.method) on this path takes no content")
    }
    let type = head.mediaType
    // The default content type of curl is accepted too; browsers need permission to send either across sites.
    let isTaken =
      body == .text || type == "application/json"
      || type == "application/x-www-form-urlencoded" && head.values("origin").isEmpty
    guard isTaken else { throw DevProblem(.mediaType, head.isNotJSON) }
  }

  // MARK: The response

  func answer(_ request: WebRequest) -> WebResponse {
    do throws(DevProblem) {
      let (operation, parameters) = try DevOperation.find(
        method: request.method, segments: request.segments)
      return try answer(operation, DevInput(request, parameters))
    } catch {
      return error.response
    }
  }

  private func answer(
    _ operation: DevOperation, _ input: DevInput
  ) throws(DevProblem) -> WebResponse {
    switch operation {
    case .console:
      return WebResponse { writer in
        writer.text("kind", "dev")
        writer.key("locked")
        writer.bool(password != nil)
      }
    case .page, .asset, .describe, .health, .status, .file, .clock, .setClock, .events:
      return try StatusRoutes(context: context).answer(operation, input)
    case .listPushes, .getPush, .clearPushes, .waitForPushes, .countPushes, .assertPushes,
      .violations, .clearViolations:
      return try PushRoutes(context: context).answer(operation, input)
    case .listDevices, .addDevice, .changeDevice, .removeDevice, .shown, .clearShown,
      .listStrings, .strings, .setStrings:
      return try DeviceRoutes(context: context).answer(operation, input)
    case .activities, .startActivity, .clearActivities:
      return try ActivityRoutes(context: context).answer(operation, input)
    case .listChannels, .addChannel, .removeChannel:
      return try ChannelRoutes(context: context).answer(operation, input)
    case .listFaults, .addFault, .removeFaults, .removeFault:
      return try FaultRoutes(context: context).answer(operation, input)
    case .send: return try SendRoutes(context: context).answer(input)
    case .makeProviderToken, .checkToken:
      return try TokenRoutes(context: context).answer(operation, input)
    }
  }

  // MARK: Unreadable requests

  func malformed(_ problem: String) -> WebResponse { DevProblem(.malformed, problem).response }

  func tooLarge(limitBytes: Int) -> WebResponse {
    DevProblem(.tooLarge, "a request's content has at most \(limitBytes) bytes").response
  }
}

/// A request's input, for its route.
struct DevInput {
  let request: WebRequest
  private let parameters: [String]

  init(_ request: WebRequest, _ parameters: [String]) {
    self.request = request
    self.parameters = parameters
  }

  /// The text of a variable part of the path.
  func parameter(_ index: Int = 0) -> String { parameters[index] }

  func query(_ name: String) throws(DevProblem) -> String? {
    let values = request.query.filter { $0.name == name }.map(\.value)
    guard values.count <= 1 else {
      throw DevProblem(.invalid, "is given twice", field: name)
    }
    return values.first.flatMap { $0.isEmpty ? nil : $0 }
  }

  func number(_ name: String, _ range: ClosedRange<UInt64>) throws(DevProblem) -> UInt64? {
    guard let text = try query(name) else { return nil }
    guard text.utf8.allSatisfy({ $0 &- 0x30 < 10 }), let number = UInt64(text),
      range.contains(number)
    else {
      throw DevProblem(
        .invalid, "must be a number from \(range.lowerBound) to \(range.upperBound)", field: name)
    }
    return number
  }

  /// Reads the body; without one, an empty object. Errors have line and column.
  func read<Value>(
    _ body: (inout FieldReader) throws(InputFault) -> Value
  ) throws(DevProblem) -> Value {
    do throws(InputFault) {
      let json =
        request.body.isEmpty ? JSONValue.object(JSONObject()) : try JSONText.parse(request.body)
      var reader = try FieldReader(json)
      let value = try body(&reader)
      try reader.finish()
      return value
    } catch {
      throw DevProblem(error, in: request.body)
    }
  }
}
