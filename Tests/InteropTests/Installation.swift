import Foundation

/// A service as an operator would run it: in its own process, with its own data directory.
final class Installation {
  static let topic = "com.example.app"

  let directory: URL
  let apus: URL
  let made: [String: Any]
  private(set) var service: Companion?
  private(set) var providerPort = 0
  private(set) var courierPort = 0
  private(set) var gatewayPort = 0
  private(set) var feedbackPort = 0

  /// - Parameter options: More of `apus init`.
  init(_ options: [String] = []) throws {
    let directory = FileManager.default.temporaryDirectory.appending(
      path: "apus-interop-\(UUID().uuidString)")
    let apus = try Programs.product("apus")
    self.directory = directory
    self.apus = apus
    made = try Programs.json(
      InitializedDirectory.make(directory, options: options) {
        try Programs.run(
          apus, ["init", "--data", directory.path, "--topic", Self.topic, "--json"] + options)
      })
  }

  /// Uses an existing data directory, which it does not delete.
  init(existing: URL) throws {
    directory = existing
    apus = try Programs.product("apus")
    made = [:]
  }

  deinit {
    service?.stop()
    guard !made.isEmpty else { return }
    try? FileManager.default.removeItem(at: directory)
    InitializedDirectory.giveBack()
  }

  /// Runs a command on the data directory. Returns its standard output and error.
  func run(_ arguments: [String], expecting code: Int = 0) throws -> String {
    try Programs.run(
      URL(filePath: "/bin/sh"),
      [
        "-c", #"timeout 60 "$0" "$@" 2>&1; [ $? = \#(code) ]"#, apus.path, arguments[0], "--data",
        directory.path,
      ] + arguments.dropFirst())
  }

  func text(_ key: String) -> String { made[key] as? String ?? "" }

  var authority: String {
    made.isEmpty ? "\(directory.path)/authority/service.crt" : text("authority_file")
  }

  /// Starts the service, on the same ports each time.
  ///
  /// - Parameters:
  ///   - gateway, feedback: The modifiers of these listeners, such as "+legacy-tls+confirm".
  ///   - direct: Those of the listeners for providers and devices.
  func start(
    _ extra: [String] = [], gateway: String = "", feedback: String = "", direct: String = "",
    environment: [String: String] = [:]
  ) throws {
    try launch(
      extra, gateway: gateway, feedback: feedback, direct: direct, environment: environment)
    try awaitReady()
  }

  /// The same without waiting until it serves.
  func launch(
    _ extra: [String] = [], gateway: String = "", feedback: String = "", direct: String = "",
    environment: [String: String] = [:]
  ) throws {
    try choosePorts()
    service = try Companion(
      apus,
      [
        "serve", "--data", directory.path, "--json", "--log-level", "warning",
        "--http2-listen", "127.0.0.1:\(providerPort)\(direct)", "--courier-listen",
        "127.0.0.1:\(courierPort)\(direct)", "--http2-development-listen", "off",
        "--courier-development-listen", "off", "--gateway-listen",
        "127.0.0.1:\(gatewayPort)\(gateway)", "--feedback-listen",
        "127.0.0.1:\(feedbackPort)\(feedback)", "--gateway-development-listen", "off",
        "--feedback-development-listen", "off", "--unregister-grace", "0",
      ] + extra, name: "apus serve", environment: environment)
  }

  /// Below the ports for outgoing connections (ip(7), `ip_local_port_range`): a client that connects again and again
  /// while the service is dead could get its port.
  private func choosePorts() throws {
    guard providerPort == 0 else { return }
    var ports: Set<Int> = []
    while ports.count < 4 { ports.insert(Self.freePort()) }
    let chosen = Array(ports)
    (providerPort, courierPort) = (chosen[0], chosen[1])
    (gatewayPort, feedbackPort) = (chosen[2], chosen[3])
  }

  static func freePort() -> Int {
    while true {
      let port = Int.random(in: 10_000..<32_000)
      if isFree(port) { return port }
    }
  }

  private static func isFree(_ port: Int) -> Bool {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
    return withUnsafePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
      }
    }
  }

  /// Waits until the service serves.
  ///
  /// - Parameter times: For how often it must have begun to serve by then.
  func awaitReady(times: Int = 1) throws {
    guard let service else { throw Trouble("the service was not started") }
    let ready = try service.wait(for: "\(times) x ready") { lines in
      let all = lines.filter { $0["event"] as? String == "ready" }
      return all.count >= times ? all[times - 1] : nil
    }
    providerPort = try Self.port(ready["http2"])
    courierPort = try Self.port(ready["courier"])
    gatewayPort = try Self.port(ready["gateway"])
    feedbackPort = try Self.port(ready["feedback"])
  }

  /// Serves at the addresses of another installation, which does not serve at that time.
  func usePorts(of other: Installation) {
    (providerPort, courierPort) = (other.providerPort, other.courierPort)
    (gatewayPort, feedbackPort) = (other.gatewayPort, other.feedbackPort)
  }

  static func port(_ addresses: Any?) throws -> Int {
    guard let first = (addresses as? [String])?.first,
      let port = first.split(separator: ":").last.flatMap({ Int($0) })
    else { throw Trouble("no port in \(String(describing: addresses))") }
    return port
  }

  /// Issues a certificate for a device and connects it.
  func device(_ name: String) throws -> InstalledDevice {
    let issued = try Programs.json(
      Programs.run(apus, ["device", "add", "--data", directory.path, "--name", name, "--json"]))
    guard let certificate = issued["certificate_file"] as? String,
      let key = issued["key_file"] as? String
    else { throw Trouble("no files in \(issued)") }
    return InstalledDevice(installation: self, certificate: certificate, key: key, name: name)
  }

  /// Issues a certificate for a provider, in one file with its key, as some clients require.
  ///
  /// - Parameter extra: Options of `apus cert`, such as `--rsa 2048` for clients that support only RSA keys.
  func providerCertificate(_ extra: [String] = []) throws -> String {
    let issued = try Programs.json(
      Programs.run(
        apus, ["cert", "--data", directory.path, "--topic", Self.topic, "--json"] + extra))
    guard let both = issued["pem_file"] as? String else { throw Trouble("no file in \(issued)") }
    return both
  }
}

/// A device as a user would run it.
final class InstalledDevice {
  private unowned let installation: Installation
  private let certificate: String
  private let key: String
  private let name: String
  private(set) var listener: Companion?

  init(installation: Installation, certificate: String, key: String, name: String) {
    self.installation = installation
    self.certificate = certificate
    self.key = key
    self.name = name
  }

  deinit { listener?.stop() }

  /// Connects, with the app installed, and returns its token.
  func connect() throws -> String {
    let listener = try listen(["--topic", Installation.topic])
    self.listener = listener
    guard let token = try listener.first("token")["token"] as? String else {
      throw Trouble("\(name): no token")
    }
    return token
  }

  func disconnect() {
    listener?.stop()
    listener = nil
  }

  /// Removes the app from the device.
  func removeApp() throws {
    disconnect()
    let listener = try listen(["--unregister", Installation.topic])
    _ = try listener.first("connected")
    // Responses to providers will show when the service has applied it.
    self.listener = listener
  }

  func listen(_ arguments: [String]) throws -> Companion {
    try Companion(
      installation.apus,
      [
        "listen", "--to", "localhost:\(installation.courierPort)", "--authority",
        installation.authority, "--certificate", certificate, "--key", key, "--json",
      ] + arguments, name: name)
  }

  /// The member "n" of every shown payload, in order.
  var numbers: [Int] { Self.numbers(listener?.all("notification") ?? []) }

  /// The same, after waiting for at least that many.
  func shown(atLeast count: Int) throws -> [Int] {
    guard let listener else { throw Trouble("\(name) is not connected") }
    return try listener.wait(for: "\(count) notifications") { lines in
      let numbers = Self.numbers(lines)
      return numbers.count >= count ? numbers : nil
    }
  }

  private static func numbers(_ lines: [[String: Any]]) -> [Int] {
    lines.compactMap { ($0["payload"] as? [String: Any])?["n"] as? Int }
  }
}
