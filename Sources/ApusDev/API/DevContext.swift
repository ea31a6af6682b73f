import ApusAdmin
import ApusClient
import ApusDirectory
import ApusThread
package import ApusLoop
package import ApusModel
import ApusServer
import ApusWeb
import ApusWire

/// Everything that the API's routes use.
struct DevContext: Sendable {
  let recorder: PushRecorder
  let book: DeviceBook
  let faults: FaultInjector
  let clock: ServiceClock
  let clockChanged: @Sendable () -> Void
  let devices: VirtualDevices
  let feed: EventFeed
  let composer: Composer
  let facts: DevFacts
  let service: any AdministeredService
  /// What the service is judging by.
  let trust: @Sendable () -> Trust

  /// Runs `body` with the devices on their loop, and waits for its result; nil on timeout.
  func ask<Answer: Sendable>(
    _ body: @escaping @Sendable (VirtualDevices, @escaping (Answer) -> Void) -> Void
  ) throws(DevProblem) -> Answer {
    let box = Monitor<Answer?>(nil)
    devices.loop.perform { [devices] in
      body(devices) { answer in box.notify { $0 = answer } }
    }
    guard let answer = box.take(withinMilliseconds: Self.patienceMilliseconds) else {
      throw DevProblem(
        .failed, "the devices did not respond within \(Self.patienceMilliseconds) ms")
    }
    return answer
  }

  private static let patienceMilliseconds: Int64 = 10_000

  /// The push as the API shows it.
  func write(_ push: CapturedPush, to writer: inout JSONWriter) {
    push.write(to: &writer, curl: facts.curl(for: push))
  }

  func announce(_ event: DevEvent) { recorder.enqueue(.event(event)) }
}

/// Facts that do not change while the development service runs.
package struct DevFacts: Sendable {
  package struct ServiceListener: Sendable {
    package var kind: ListenerKind
    package var environment: Environment
    package var port: UInt16
  }

  /// Files that a provider needs. The raw values are their names in the API.
  package enum CredentialFile: String, Sendable, CaseIterable {
    case authority = "authority.pem"
    case key = "key.p8"
    case certificate = "provider.pem"
  }

  package var version: String
  package var isLenient: Bool
  package var topics: [String]
  package var team: String
  package var keyID: String
  package var keyFile: String
  package var authorityFile: String
  /// One file with a provider's certificate for the first topic, and its key.
  package var certificateFile: String
  package var dataDirectory: String
  /// Whether the directory is deleted when the service stops.
  package var isThrowAway: Bool
  /// The host that clients connect to.
  package var host: String
  package var listeners: [ServiceListener]
  package var consoleAddress: SocketAddress
  /// The password of the console and the API; nil for none.
  package var password: String?
  package var keep: Int
  package var keepBytes: Int
  package var startedMilliseconds: Int64
  /// The token of the first device for the first topic, in production; empty before the devices have theirs.
  package var deviceToken = ""
  /// Milliseconds from the start of the program until it could accept pushes.
  package var readyMilliseconds: Int64

  package func port(_ kind: ListenerKind, _ environment: Environment) -> UInt16? {
    listeners.first { $0.kind == kind && $0.environment == environment }?.port
  }

  package func path(_ file: CredentialFile) -> String {
    switch file {
    case .authority: authorityFile
    case .key: keyFile
    case .certificate: certificateFile
    }
  }

  /// Whether providers on other machines or in containers, which do not have its files, can connect.
  package var isForOtherMachines: Bool { !consoleAddress.isThisMachine }

  /// The console's address, for a browser.
  package var console: String {
    if consoleAddress.isThisMachine { return "http://\(consoleAddress)" }
    return "http://\(authority(port: consoleAddress.port))"
  }

  /// The host and the port as in a URL.
  package func authority(port: UInt16) -> String {
    Endpoint(host: host, port: port).description
  }

  /// A shell command that sends a push again.
  func curl(for push: CapturedPush) -> String {
    let request = push.request
    let port = port(.provider, request.environment) ?? 0
    var words = [
      "curl --silent --show-error --include --http2", "--cacert \(Self.quoted(authorityFile))",
    ]
    words.append(
      "--header \"authorization: bearer $(curl --silent --request POST "
        // The user knows the password, and a shell's history must not contain it.
        + (password == nil ? "" : "--header \"authorization: Bearer $APUS_DEV_PASSWORD\" ")
        + "'\(console)/api/v1/tokens/provider?format=text')\"")
    let names = [
      HeaderName.apnsTopic, .apnsChannelID, .apnsPushType, .apnsPriority, .apnsExpiration,
      .apnsCollapseID,
    ].map { "\($0.text)" }
    var fields = request.headers.filter { names.contains($0.name) }.map { ($0.name, $0.value) }
    if request.interface == .binary {
      fields = request.topic.map { [("\(HeaderName.apnsTopic.text)", $0)] } ?? []
    }
    for (name, value) in fields { words.append("--header \(Self.quoted("\(name): \(value)"))") }
    if let text = String(validating: request.payload, as: UTF8.self) {
      words.append("--data-binary \(Self.quoted(text))")
    } else {
      let base64 = String(decoding: Base64.encode(request.payload.span), as: UTF8.self)
      words.insert("printf %s \(base64) | base64 --decode |", at: 0)
      words.append("--data-binary @-")
    }
    let path = request.channel == nil ? "/3/device/\(request.token)" : request.path
    words.append(Self.quoted("https://\(authority(port: port))\(path)"))
    return words.joined(separator: " ")
  }

  /// One word of a POSIX shell.
  static func quoted(_ text: String) -> String {
    let parts = text.split(separator: "'", omittingEmptySubsequences: false)
    return "'" + parts.joined(separator: "'\\''") + "'"
  }
}
