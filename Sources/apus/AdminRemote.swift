import ApusAdmin
import ApusCommand
import ApusDirectory
import ApusWeb
import ApusWire

/// A service elsewhere, or the one that runs in the data directory, as commands ask it over HTTP.
struct AdminRemote {
  let invocation: Invocation
  private let place: WebCall.Place
  private let secret: String?

  /// Nil where the options name no service elsewhere.
  init?(_ invocation: Invocation) throws(CommandFailure) {
    guard let url = invocation[AdminOptions.url] else {
      try Self.refuseAlone(invocation)
      return nil
    }
    self.invocation = invocation
    secret = try Self.secret(invocation)
    place = .tls(
      host: url.place.host, port: url.place.port, authorityFile: try Self.authority(invocation))
  }

  /// The service that runs in the data directory.
  init(socketOf directory: DataDirectory, _ invocation: Invocation) {
    self.invocation = invocation
    place = .unix(path: directory.adminSocket)
    secret = nil
  }

  private static func refuseAlone(_ invocation: Invocation) throws(CommandFailure) {
    // In the environment or a file they may wait for an --admin.
    for option in [AdminOptions.tokenFile, AdminOptions.authority] {
      guard invocation.isFlagged(option) else { continue }
      throw invocation.failure(
        about: option, "there is no --admin that it could be for", remedy: "Name the service.")
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
      // It is not shown: it may be a token with something beside it.
      throw CommandFailure(
        .configuration, "the given token is not one of `apus admin add`",
        remedy: "The file has the line that `apus admin add` printed, and nothing else.")
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

  /// Asks, and returns what the answer says.
  func ask(
    _ method: String, _ segments: [String], query: [WebField] = [], body: JSONValue? = nil
  ) throws(CommandFailure) -> JSONValue {
    var call = WebCall(place, method, ["v1"] + segments)
    call.query = query
    if let secret { call.headers = [WebField("authorization", "Bearer \(secret)")] }
    call.body = body?.bytes
    let answer: WebCall.Answer
    do throws(WebCall.Fault) {
      answer = try call.perform()
    } catch {
      throw CommandFailure(.unavailable, "\(error)", remedy: Self.remedy(place))
    }
    let json = JSONValue(text: String(decoding: answer.body, as: UTF8.self)) ?? .null
    guard 200...299 ~= answer.status else { throw failure(answer.status, json) }
    return json
  }

  private static func remedy(_ place: WebCall.Place) -> String {
    switch place {
    case .unix:
      "Does `apus serve` run in that data directory, and without --admin off?"
    case .tls(_, _, nil):
      "Does the service have that --admin-listen? Its authority can be given with --admin-authority."
    case .tls:
      "Does the service have that --admin-listen, and does --admin-authority belong to it?"
    }
  }

  private func failure(_ status: Int, _ json: JSONValue) -> CommandFailure {
    let detail = json["detail"]?.string ?? "the answer's status is \(status)"
    let code: ExitCode =
      switch status {
      case 400: .usage
      case 401, 403, 429: .failed
      case 404, 409: .configuration
      case 500..<600: .unavailable
      default: .failed
      }
    return CommandFailure(code, "the service says: \(detail)")
  }

  // MARK: Showing

  /// Prints an answer as it is, or in words.
  func show(_ json: JSONValue, _ text: String) {
    if invocation.isOn(ApusOptions.json) { Output.json(json) } else { Output.standard(text) }
  }

  /// Prints the elements of a list, a line each.
  func showList(_ json: JSONValue, _ list: String, name: String) {
    let elements = json[list]?.array ?? []
    if invocation.isOn(ApusOptions.json) {
      for element in elements { Output.json(element) }
      return
    }
    let rows = elements.map { element in
      (
        key: element[name]?.string ?? "",
        value: (element.object?.members ?? []).filter { $0.key != name }
          .map { "\($0.key.words) \(Self.text($0.value))" }.joined(separator: ", ")
      )
    }
    Output.standard(rows.isEmpty ? "There are none.\n" : table(rows))
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

  /// An option that means something only where the data directory is.
  func refuse(_ option: Option<some Sendable>) throws(CommandFailure) {
    guard invocation.isGiven(option) else { return }
    throw invocation.failure(
      about: option, "it cannot be done at a service elsewhere",
      remedy: "Run the command on its machine.")
  }
}

extension String {
  /// Names of members as people write them.
  fileprivate var words: String { split(separator: "_").joined(separator: " ") }
}
