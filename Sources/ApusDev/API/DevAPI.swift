import ApusWeb
import ApusWire

/// Answers the page and the tests. Nothing here knows a password: it is for this machine, and requests that come by way
/// of other sites are refused.
struct DevAPI: WebHandler {
  let context: DevContext

  // MARK: The head

  func screen(_ head: inout WebRequest) -> WebResponse? {
    do throws(DevProblem) {
      try checkHost(head)
      let operation = try DevOperation.find(method: head.method, segments: head.segments).operation
      try checkOrigin(head)
      try checkBody(head, operation)
      for field in head.query where !operation.parameters.contains(field.name) {
        let known = operation.parameters.joined(separator: ", ")
        throw DevProblem(
          .invalid, "is unknown here" + (known.isEmpty ? "" : "; there are \(known)"),
          field: field.name)
      }
      return nil
    } catch {
      return error.response
    }
  }

  /// A site elsewhere could give its own name our address (DNS rebinding); its requests then say that name.
  private func checkHost(_ head: WebRequest) throws(DevProblem) {
    let hosts = head.values("host")
    guard hosts.count == 1, Self.isLoopback(host: hosts[0]) else {
      throw DevProblem(
        .forbidden, "the request was sent to another name than localhost, 127.0.0.1 or [::1]")
    }
  }

  static func isLoopback(host: String) -> Bool {
    var name = host[...]
    if let colon = name.lastIndex(of: ":"), name.last != "]" {
      guard name[name.index(after: colon)...].allSatisfy(\.isNumber) else { return false }
      name = name[..<colon]
    }
    return ["localhost", "127.0.0.1", "[::1]"].contains(name.lowercased())
  }

  /// Browsers name the site that a request comes from, in all that may change something.
  private func checkOrigin(_ head: WebRequest) throws(DevProblem) {
    guard head.method != "GET", head.method != "HEAD" else { return }
    for origin in head.values("origin") where origin != "http://\(head.values("host")[0])" {
      throw DevProblem(.forbidden, "the request comes from another site, \(origin)")
    }
  }

  private func checkBody(
    _ head: WebRequest, _ operation: DevOperation
  ) throws(DevProblem) {
    let hasBody =
      !head.values("transfer-encoding").isEmpty
      || head.values("content-length").contains { Int($0) != 0 }
    guard hasBody else { return }
    guard let body = operation.route.body else {
      throw DevProblem(.malformed, "\(head.method) of this path takes no content")
    }
    let type = head.values("content-type").first ?? ""
    let essence = type.prefix { $0 != ";" }.lowercased().filter { $0 != " " }
    // What curl says of a body where nobody tells it better; browsers need leave to send either.
    let isTaken =
      body == .text || essence == "application/json"
      || essence == "application/x-www-form-urlencoded" && head.values("origin").isEmpty
    guard isTaken else {
      throw DevProblem(
        .mediaType,
        "the content must be application/json, and says " + (type.isEmpty ? "nothing" : type))
    }
  }

  // MARK: The answer

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
    case .page, .asset, .describe, .health, .status, .clock, .setClock, .events:
      return try StatusRoutes(context: context).answer(operation, input)
    case .listPushes, .getPush, .clearPushes, .waitForPushes, .countPushes, .assertPushes,
      .violations, .clearViolations:
      return try PushRoutes(context: context).answer(operation, input)
    case .listDevices, .addDevice, .changeDevice, .removeDevice, .shown, .clearShown,
      .listStrings, .strings, .setStrings:
      return try DeviceRoutes(context: context).answer(operation, input)
    case .listFaults, .addFault, .removeFaults, .removeFault:
      return try FaultRoutes(context: context).answer(operation, input)
    case .send: return try SendRoutes(context: context).answer(input)
    case .makeProviderToken, .checkToken:
      return try TokenRoutes(context: context).answer(operation, input)
    }
  }

  // MARK: What cannot be read

  func malformed(_ problem: String) -> WebResponse { DevProblem(.malformed, problem).response }

  func tooLarge(limitBytes: Int) -> WebResponse {
    DevProblem(.tooLarge, "a request's content has at most \(limitBytes) bytes").response
  }
}

/// What a request says, for the route that answers it.
struct DevInput {
  let request: WebRequest
  private let parameters: [String]

  init(_ request: WebRequest, _ parameters: [String]) {
    self.request = request
    self.parameters = parameters
  }

  /// What stands in a variable part of the path.
  func parameter(_ index: Int = 0) -> String { parameters[index] }

  func query(_ name: String) throws(DevProblem) -> String? {
    let values = request.query.filter { $0.name == name }.map(\.value)
    guard values.count <= 1 else {
      throw DevProblem(.invalid, "stands there twice", field: name)
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

  /// Reads the body; without one, an empty object. What is wrong with it is said with line and column.
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
