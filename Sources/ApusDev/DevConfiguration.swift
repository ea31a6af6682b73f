package import ApusDirectory
package import ApusLog
package import ApusLoop
package import ApusServer

/// The configuration of a development service.
package struct DevConfiguration: Sendable {
  /// Ports on loopback; 0 picks a free one.
  package struct Ports: Sendable, Hashable {
    package var http2: UInt16 = 2197
    package var http2Development: UInt16 = 2198
    /// Where providers manage channels.
    package var channels: UInt16 = 2199
    package var channelsDevelopment: UInt16 = 2200
    package var courier: UInt16 = 5223
    package var courierDevelopment: UInt16 = 5224
    package var gateway: UInt16 = 2195
    package var gatewayDevelopment: UInt16 = 2295
    package var feedback: UInt16 = 2196
    package var feedbackDevelopment: UInt16 = 2296
    package var console: UInt16 = 2190

    package init() {}

    /// Free ports, for tests that run in parallel.
    package static var free: Ports {
      var ports = Ports()
      ports.http2 = 0
      ports.http2Development = 0
      ports.channels = 0
      ports.channelsDevelopment = 0
      ports.courier = 0
      ports.courierDevelopment = 0
      ports.gateway = 0
      ports.gatewayDevelopment = 0
      ports.feedback = 0
      ports.feedbackDevelopment = 0
      ports.console = 0
      return ports
    }
  }

  /// The contents of an input file, and its path for messages.
  package struct Source: Sendable {
    package var path: String
    package var text: [UInt8]

    package init(path: String, text: [UInt8]) {
      self.path = path
      self.text = text
    }

    /// The problem for a fault, with its position.
    func problem(_ fault: InputFault) -> DevProblem {
      let place = fault.position(in: text).map { ", line \($0.line), column \($0.column)" } ?? ""
      return DevProblem(.invalid, "\(path)\(place): \(fault)")
    }
  }

  /// A directory that is kept for the next run; nil for a temporary one.
  package var dataDirectory: String?
  /// Whether to accept any well-formed token and topic, and any readable key.
  package var isLenient = true
  /// Bundle ids of the apps; never empty.
  package var topics = ["com.example.app"]
  /// Ids of the virtual devices at the start.
  package var devices = ["phone", "tablet"]
  package var ports = Ports()
  /// Maximum number of kept pushes, and their maximum megabytes.
  package var keep = 10_000
  package var keepMegabytes = 128
  /// A file of faults (JSON).
  package var faults: Source?
  /// Texts of apps: the contents of `Localizable.strings` files.
  package var strings: [(topic: String, language: String, file: Source)] = []
  package var version = ""
  /// The address of all listeners, whose port is ignored; nil for loopback.
  package var listen: SocketAddress?
  /// Host names and addresses for the server's certificate, besides those of loopback and `listen`.
  package var names: [String] = []
  /// Whether a new authority has an RSA key.
  package var usesRSA = false
  /// Whether legacy senders and feedback readers may use TLS 1.0 and 1.1.
  package var allowsLegacyTLS = false
  /// Names of rules whose violations are not reported.
  package var allowedRules: Set<String> = []
  /// The password of the console and the API; nil for none, which is allowed on loopback only.
  package var password: String?
  /// Where pushes for the topics go whose device tokens are of another service; nil if they get virtual devices.
  package var upstream: UpstreamChange?
  /// What sends them there.
  package var relay: (any UpstreamRelay)?
  package var log = Log(minimumLevel: .warning)
  /// Start of the program, milliseconds of the monotonic clock.
  package var startedMonotonicMilliseconds: Int64?

  package init() {}

  /// Where clients on this machine reach the listeners.
  var localHost: String {
    guard let listen, !listen.isEverywhere else { return "localhost" }
    return listen.isThisMachine ? "localhost" : listen.hostText
  }

  /// All names in the server's certificate.
  var certificateNames: [String] {
    var all = ["localhost", "127.0.0.1", "::1"]
    for name in names + [localHost] where !all.contains(name) { all.append(name) }
    return all
  }
}
