import ApusAdmin
import ApusCommand
import ApusDirectory
import ApusModel
import ApusWeb
import ApusWire

/// The administration API of a remote service, or of the service that runs in the data directory.
struct AdminRemote {
  let invocation: Invocation
  private let endpoint: WebCall.Endpoint
  private let secret: String?

  /// Nil if the options name no remote service.
  init?(_ invocation: Invocation) throws(CommandFailure) {
    guard let url = invocation[AdminOptions.url] else {
      try Self.refuseAlone(invocation)
      return nil
    }
    self.invocation = invocation
    secret = try Self.secret(invocation)
    endpoint = .tls(
      host: url.endpoint.host, port: url.endpoint.port,
      authorityFile: try Self.authority(invocation))
  }

  /// The service that runs in the data directory.
  init(socketOf directory: DataDirectory, _ invocation: Invocation) {
    self.invocation = invocation
    endpoint = .unix(path: directory.adminSocket)
    secret = nil
  }

  /// The remote service that the options name, or else the one that runs in the data directory.
  static func any(_ invocation: Invocation) throws(CommandFailure) -> AdminRemote {
    try AdminRemote(invocation)
      ?? AdminRemote(
        socketOf: DataDirectory(path: invocation.value(ApusOptions.data)), invocation)
  }

  private static func refuseAlone(_ invocation: Invocation) throws(CommandFailure) {
    // Set in the environment or a file, they do no harm without --admin.
    for option in [AdminOptions.tokenFile, AdminOptions.authority] {
      guard invocation.isFlagged(option) else { continue }
      throw invocation.failure(
        about: option, "it has no effect without --admin", remedy: "Name the service with --admin.")
    }
  }

  private static func secret(_ invocation: Invocation) throws(CommandFailure) -> String {
    let text: String
    if let path = invocation[AdminOptions.tokenFile] {
      text = try Process.text(of: path, for: AdminOptions.tokenFile, invocation)
    } else if let given = Process.environment[AdminOptions.tokenVariable] {
      text = given
    } else {
      var failure = invocation.missing(AdminOptions.tokenFile.description)
      failure.problem += ", and \(AdminOptions.tokenVariable) is not set"
      throw failure
    }
    let secret = String(text.trimmed.prefix { !$0.isNewline })
    guard !secret.isEmpty, secret.utf8.allSatisfy({ 0x21...0x7e ~= $0 }) else {
      // The text is not shown: it may contain a token.
      throw CommandFailure(
        .configuration, "the given administration token is malformed",
        remedy: "Use exactly the line that `apus admin add` printed.")
    }
    return secret
  }

  private static func authority(_ invocation: Invocation) throws(CommandFailure) -> String? {
    if let path = invocation[AdminOptions.authority] {
      _ = try Process.text(of: path, for: AdminOptions.authority, invocation)
      return path
    }
    let own = DataDirectory(path: invocation.value(ApusOptions.data)).clientAuthorityFile
    return Files.exists(own) ? own : nil
  }

  // MARK: Asking

  /// Sends a request, and returns the JSON of the response.
  func ask(
    _ method: String, _ segments: [String], query: [WebField] = [],
    headers: [WebField] = [], body: JSONValue? = nil
  ) throws(CommandFailure) -> JSONValue {
    let answer: WebCall.Answer
    do throws(WebCall.Fault) {
      answer = try perform(method, segments, query, headers: headers, body)
    } catch {
      throw CommandFailure(.unavailable, "\(error)", remedy: Self.remedy(endpoint))
    }
    return try read(answer)
  }

  /// The same; nil if it is the service of the data directory, and none runs there.
  func askIfRunning(
    _ method: String, _ segments: [String], query: [WebField] = [], body: JSONValue? = nil
  ) throws(CommandFailure) -> JSONValue? {
    guard case .unix = endpoint else {
      return try ask(method, segments, query: query, body: body)
    }
    guard let answer = try? perform(method, segments, query, body) else { return nil }
    return try read(answer)
  }

  /// The same; nil if the service does not know what is asked for.
  func askIfKnown(_ method: String, _ segments: [String]) throws(CommandFailure) -> JSONValue? {
    let answer: WebCall.Answer
    do throws(WebCall.Fault) {
      answer = try perform(method, segments, [], nil)
    } catch {
      throw CommandFailure(.unavailable, "\(error)", remedy: Self.remedy(endpoint))
    }
    return answer.status == 404 ? nil : try read(answer)
  }

  private func perform(
    _ method: String, _ segments: [String], _ query: [WebField],
    headers: [WebField] = [], _ body: JSONValue?
  ) throws(WebCall.Fault) -> WebCall.Answer {
    var call = WebCall(endpoint, method, ["v1"] + segments)
    call.query = query
    call.headers = headers
    if let secret { call.headers.append(WebField("authorization", "Bearer \(secret)")) }
    call.body = body?.bytes
    return try call.perform()
  }

  private func read(_ answer: WebCall.Answer) throws(CommandFailure) -> JSONValue {
    let json = JSONValue(text: String(decoding: answer.body, as: UTF8.self)) ?? .null
    guard 200...299 ~= answer.status else { throw failure(answer.status, json) }
    return json
  }

  private static func remedy(_ endpoint: WebCall.Endpoint) -> String {
    switch endpoint {
    case .unix:
      "Does `apus serve` run on that data directory, without --admin off?"
    case .tls(_, _, nil):
      "Is this the address of the service's --admin-listen? Give its authority with --admin-authority."
    case .tls, .url:
      "Is this the address of the service's --admin-listen, and is --admin-authority its authority?"
    }
  }

  private func failure(_ status: Int, _ json: JSONValue) -> CommandFailure {
    let detail = json["detail"]?.string ?? "status \(status)"
    let code: ExitCode =
      switch status {
      case 400: .usage
      case 401, 403, 429: .failed
      case 404, 409: .configuration
      case 500..<600: .unavailable
      default: .failed
      }
    return CommandFailure(code, "the service responded: \(detail)")
  }

  // MARK: Showing

  /// Prints a response as JSON, or as text.
  func show(_ json: JSONValue, _ text: String) {
    if invocation.isOn(ApusOptions.json) { Output.json(json) } else { Output.standard(text) }
  }

  /// Prints the elements of a list, one per line.
  func showList(_ json: JSONValue, _ list: String, name: String) {
    Self.show(json[list]?.array ?? [], name: name, invocation)
  }

  /// The same of elements that this program made.
  static func show(_ elements: [JSONValue], name: String, _ invocation: Invocation) {
    if invocation.isOn(ApusOptions.json) {
      for element in elements { Output.json(element) }
      return
    }
    let rows = elements.map { element in
      (
        key: element[name]?.string ?? "",
        value: (element.object?.members ?? []).filter { $0.key != name }
          .map { "\($0.key.words) \(text($0.value))" }.joined(separator: ", ")
      )
    }
    Output.standard(rows.isEmpty ? "None.\n" : table(rows))
  }

  /// The members of an object as a table.
  static func rows(_ json: JSONValue) -> String {
    table((json.object?.members ?? []).map { (key: $0.key.words, value: text($0.value)) })
  }

  private static func text(_ value: JSONValue) -> String {
    switch value {
    case .string(let text): text
    case .array(let elements): elements.map(text).joined(separator: " ")
    case .bool(let isSo): isSo ? "yes" : "no"
    case .object(let object):
      object.members.map { "\($0.key.words) \(text($0.value))" }.joined(separator: ", ")
    default: value.text
    }
  }

  /// Rejects an option that works only on the machine with the data directory.
  func refuse(_ option: Option<some Sendable>) throws(CommandFailure) {
    guard invocation.isGiven(option) else { return }
    throw invocation.failure(
      about: option, "it does not work with a remote service",
      remedy: "Run the command on its machine.")
  }
}

extension String {
  /// The name of a JSON member with spaces instead of underscores.
  fileprivate var words: String { split(separator: "_").joined(separator: " ") }
}
